"""The session's cookie (specification §5.4, decisions §5), and those on the way to one.

And whose pages may make use of them.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from portico.domain.errors import PermissionDenied
from portico.domain.providers import VISIT_SECONDS
from portico.domain.sessions import DEVICE_SECONDS, MAX_SECONDS, PENDING_SECONDS

_LONGEST = 100


class SecretCookie:
    """How a cookie that holds a secret is named, read and set."""

    def __init__(
        self, name: str, seconds: int, domain: str | None = None, *, same_site: str = "Strict"
    ) -> None:
        """It holds for so many seconds. `domain` is that whose hosts share the cookie, None where
        none do: browsers then hold it to this one host by its name alone.
        With `same_site` Lax it also comes along where another site leads here."""
        self.name = f"__Secure-{name}" if domain else f"__Host-{name}"
        self._seconds = seconds
        shared = f"; Domain={domain}" if domain else ""
        self._attributes = f"; Path=/{shared}; Secure; HttpOnly; SameSite={same_site}"
        self._start = f"{self.name}="

    def read(self, headers: Any) -> str | None:
        """The cookie's value, where one was sent that can be ours."""
        if "cookie" not in headers:
            return None
        # Browsers send several lines over HTTP/2 (RFC 9113 §8.2.3).
        for pair in ";".join(headers.get_all("cookie")).split(";"):
            cookie = pair.strip()
            if cookie.startswith(self._start) and len(cookie) <= _LONGEST:
                return str(cookie[len(self._start) :])
        return None

    def set(self, secret: str) -> tuple[str, str]:
        """The header that sets it."""
        value = f"{self._start}{secret}{self._attributes}; Max-Age={self._seconds}"
        return ("set-cookie", value)

    def clear(self) -> tuple[str, str]:
        """The header that clears it."""
        return ("set-cookie", f"{self._start}{self._attributes}; Max-Age=0")


def are_unreadable(headers: Any) -> bool:
    """Whether cookies were sent and the server gives none of them: one that is not ASCII takes its
    whole line along."""
    return "cookie" in headers and not headers.get_all("cookie")


@cache
def session_cookie(domain: str | None) -> SecretCookie:
    """The session's cookie for this domain."""
    return SecretCookie("session", MAX_SECONDS, domain)


SECOND_STEP = SecretCookie("second-step", PENDING_SECONDS)
"""The cookie between the password and the second factor. Nothing but the second step takes it."""

DEVICE = SecretCookie("device", DEVICE_SECONDS)
"""The cookie that tells a browser from others in which people sign in. It opens nothing."""

PROVIDER = SecretCookie("provider", VISIT_SECONDS, same_site="Lax")
"""The cookie of somebody who is away at another provider, or has come back and waits to be linked.
Their way back begins on its site."""


class Origins:
    """The origins of our own pages."""

    def __init__(self, addresses: Iterable[str], home: str) -> None:
        """`home` is the address that people open."""
        self._home = home
        parts = (urlsplit(address) for address in addresses)
        self._own = frozenset(f"{part.scheme}://{part.netloc}" for part in parts)

    def check(self, headers: Any) -> None:
        """Refuses what another site's page sends on a user's behalf; what is no browser sends
        neither `Origin` nor `Sec-Fetch-Site`. Raises `PermissionDenied`."""
        origin, from_site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin in self._own:
            return
        if origin == "null" and from_site == "same-origin":
            return  # a page of ours that tells nobody its address
        # The server gives no value that is not ASCII.
        if "origin" in headers and from_site == "same-origin":
            raise PermissionDenied(
                f"This page's address is none of Portico's own: begin at {self._home}."
            )
        if "origin" in headers or from_site in ("cross-site", "same-site"):
            raise PermissionDenied(
                "This request comes from another site's page; send it from one of our own, or"
                " from a program, which needs no Origin header."
            )
