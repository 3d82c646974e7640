"""The session cookie (specification §5.4, decisions §5), the cookies used during sign-in, and the
same-origin check that protects them."""

from collections.abc import Iterable
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from portico.core.errors import PermissionDenied
from portico.core.providers import VISIT_SECONDS
from portico.core.sessions import DEVICE_SECONDS, MAX_SECONDS, PENDING_SECONDS

_LONGEST = 100


class SecretCookie:
    """Names, reads and sets a cookie that holds a secret."""

    def __init__(
        self, name: str, seconds: int, domain: str | None = None, *, same_site: str = "Strict"
    ) -> None:
        """The cookie lasts `seconds`. `domain` is the domain whose hosts share it; without one, the
        prefix `__Host-` makes browsers bind it to this host. With `same_site` Lax, browsers also
        send it when a link or redirect of another site leads here."""
        self.name = f"__Secure-{name}" if domain else f"__Host-{name}"
        self._seconds = seconds
        shared = f"; Domain={domain}" if domain else ""
        self._attributes = f"; Path=/{shared}; Secure; HttpOnly; SameSite={same_site}"
        self._start = f"{self.name}="

    def read(self, headers: Any) -> str | None:
        """The cookie's value, None if none was sent that can be ours."""
        if "cookie" not in headers:
            return None
        # Browsers send several lines over HTTP/2 (RFC 9113 §8.2.3).
        for pair in ";".join(headers.get_all("cookie")).split(";"):
            cookie = pair.strip()
            if cookie.startswith(self._start) and len(cookie) <= _LONGEST:
                return str(cookie[len(self._start) :])
        return None

    def set(self, secret: str) -> tuple[str, str]:
        """The header that sets the cookie."""
        value = f"{self._start}{secret}{self._attributes}; Max-Age={self._seconds}"
        return ("set-cookie", value)

    def clear(self) -> tuple[str, str]:
        """The header that clears the cookie."""
        return ("set-cookie", f"{self._start}{self._attributes}; Max-Age=0")


def are_unreadable(headers: Any) -> bool:
    """Whether cookies were sent that granian could not read: one that is not ASCII makes its whole
    line unreadable."""
    return "cookie" in headers and not headers.get_all("cookie")


@cache
def session_cookie(domain: str | None) -> SecretCookie:
    """The session cookie for this domain."""
    return SecretCookie("session", MAX_SECONDS, domain)


SECOND_STEP = SecretCookie("second-step", PENDING_SECONDS)
"""The cookie between the password and the second factor. Only the second step accepts it."""

DEVICE = SecretCookie("device", DEVICE_SECONDS)
"""The cookie that recognises a browser in which someone has signed in. It grants no access."""

PROVIDER = SecretCookie("provider", VISIT_SECONDS, same_site="Lax")
"""The cookie of a sign-in by another provider: of a user who is there, or has returned and has yet
to be linked. It is Lax because the way back starts on the provider's site."""


class Origins:
    """The origins of Portico's own pages."""

    def __init__(self, addresses: Iterable[str], home: str) -> None:
        """`home` is the dashboard's address."""
        self._home = home
        parts = (urlsplit(address) for address in addresses)
        self._own = frozenset(f"{part.scheme}://{part.netloc}" for part in parts)

    def check(self, headers: Any) -> None:
        """Raises `PermissionDenied` for a request from another site's page. Clients other than
        browsers pass: they send neither `Origin` nor `Sec-Fetch-Site`."""
        origin, from_site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin in self._own:
            return
        if origin == "null" and from_site == "same-origin":
            return  # one of our pages, whose referrer policy hides its origin
        # `origin` is None here if the header was sent and is not ASCII.
        if "origin" in headers and from_site == "same-origin":
            raise PermissionDenied(
                f"This page was opened at an address that is not configured; open {self._home}."
            )
        if "origin" in headers or from_site in ("cross-site", "same-site"):
            raise PermissionDenied(
                "This request comes from another site's page; send it from a page of this server,"
                " or from a program, without an Origin header."
            )
