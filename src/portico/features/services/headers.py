"""The headers between client, Portico and a service: what is taken off, and what is added.

A client's own `X-Portico-*` and forwarding headers never pass, in any spelling: some servers read
`X_Portico_User` as `X-Portico-User`.
"""

from collections.abc import Iterable
from functools import lru_cache

from portico.core.caller import Principal
from portico.web.cookies import DEVICE, PROVIDER, SECOND_STEP

Pairs = list[tuple[str, str]]

_HOPS = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization"),
        *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect"),
    }
)
"""Headers about one connection (RFC 9110 §7.6.1)."""

_TAKEN_OFF = frozenset(
    {
        *("authorization", "content-length", "host", "x-request-id"),
        # Where a request comes from: some servers believe any of these.
        *("forwarded", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip"),
        # Another path or method than that which was decided on.
        *("x-rewrite-url", "x-http-method", "x-http-method-override", "x-method-override"),
    }
)
_OURS = frozenset({"x-request-id", "x-content-type-options", "strict-transport-security"})


_NAMES = 256
"""How many names of headers to remember: clients and services use the same few."""


def spelling(name: str) -> str:
    """A header's name as the most lenient server reads it."""
    return name.lower().replace("_", "-")


@lru_cache(_NAMES)
def _name_sent_on(name: str) -> str | None:
    """The name under which a client's header is sent on; None if it is taken off."""
    spelled = spelling(name)
    if spelled in _HOPS or spelled in _TAKEN_OFF:
        return None
    if spelled.startswith(("x-portico-", "x-forwarded-", "x-original-")):
        return None
    return name.lower()


@lru_cache(_NAMES)
def _name_sent_back(name: bytes) -> str | None:
    """The name under which a service's header is sent back; None if it is taken off."""
    lower = name.decode("latin-1").lower()
    if not lower.isascii() or lower in _HOPS or lower in _OURS:
        return None
    if lower.startswith(("x-ratelimit-", "x-portico-", "access-control-")):
        return None
    return lower


def sent_on(headers: Iterable[tuple[str, str]], session: str) -> Pairs:
    """The client's headers as the service gets them. `session` is the name of the session
    cookie."""
    named: frozenset[str] = frozenset()
    kept: Pairs = []
    for name, value in headers:
        sent = _name_sent_on(name)
        if sent is None:
            if name.lower() == "connection":
                named |= _named_by(value)
        elif value.isascii():
            if sent == "cookie" and not (value := _without(value, session)):
                continue
            kept.append((sent, value))
    if named:
        return [(name, value) for name, value in kept if spelling(name) not in named]
    return kept


def sent_back(headers: Iterable[tuple[bytes, bytes]], session: str) -> Pairs:
    """The service's headers as the client gets them."""
    named: frozenset[str] = frozenset()
    kept: Pairs = []
    for raw_name, raw in headers:
        name, value = _name_sent_back(raw_name), raw.decode("latin-1")
        if name is None:
            if (hop := raw_name.lower()) == b"connection":
                named |= _named_by(value)
            elif hop == b"transfer-encoding":
                named |= {"content-length"}
        elif value.isascii() and not (
            name == "set-cookie" and value.startswith(_our_cookies(session))
        ):
            kept.append((name, value))
    if named:
        return [(name, value) for name, value in kept if spelling(name) not in named]
    return kept


def of_caller(caller: Principal, environment: str, identity: str) -> Pairs:
    """Who asks, for the service."""
    return [
        ("x-portico-user", str(caller.user_id)),
        ("x-portico-role", caller.role),
        ("x-portico-scopes", " ".join(sorted(caller.scopes))),
        ("x-portico-plan", caller.plan),
        ("x-portico-credential", f"{caller.credential}:{caller.credential_id}"),
        ("x-portico-environment", environment),
        ("x-portico-identity", identity),
    ]


def _named_by(connection: str) -> frozenset[str]:
    """The names in a `Connection` header, whose headers are about that connection too."""
    return frozenset(spelling(one.strip()) for one in connection.split(","))


def _our_cookies(session: str) -> tuple[str, ...]:
    return tuple(f"{name}=" for name in (session, SECOND_STEP.name, DEVICE.name, PROVIDER.name))


def _without(cookies: str, session: str) -> str:
    """Cookies without Portico's own."""
    ours = _our_cookies(session)
    pairs = (pair.strip() for pair in cookies.split(";"))
    return "; ".join(pair for pair in pairs if pair and not pair.startswith(ours))
