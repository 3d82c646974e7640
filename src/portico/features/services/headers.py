"""The headers between client, Portico and a service: what is taken off, and what is added.

A client's own `X-Portico-*` and forwarding headers never pass, in any spelling: some servers read
`X_Portico_User` as `X-Portico-User`.
"""

from collections.abc import Iterable

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

_TAKEN_OFF = frozenset({"authorization", "host", "forwarded", "x-real-ip", "x-request-id"})
_OURS = frozenset({"x-request-id", "x-content-type-options", "strict-transport-security"})


def spelling(name: str) -> str:
    """A header's name as the most lenient server reads it."""
    return name.lower().replace("_", "-")


def sent_on(headers: Iterable[tuple[str, str]], session: str) -> Pairs:
    """The client's headers as the service gets them. `session` is the name of the session
    cookie."""
    pairs = [(name.lower(), value) for name, value in headers if value.isascii()]
    named = _named_by_connection(pairs)
    kept: Pairs = []
    for name, value in pairs:
        spelled = spelling(name)
        if spelled in named or spelled in _HOPS or spelled in _TAKEN_OFF:
            continue
        if spelled.startswith(("x-portico-", "x-forwarded-", "x-original-")):
            continue
        if spelled == "cookie":
            value = _without(value, session)
            if not value:
                continue
        kept.append((name, value))
    return kept


def sent_back(headers: Iterable[tuple[bytes, bytes]], session: str) -> Pairs:
    """The service's headers as the client gets them."""
    pairs = [
        (name.decode("latin-1").lower(), value.decode("latin-1"))
        for name, value in headers
        if name.isascii() and value.isascii()
    ]
    named = _named_by_connection(pairs)
    if any(name == "transfer-encoding" for name, _ in pairs):
        named |= {"content-length"}
    return [
        (name, value)
        for name, value in pairs
        if name not in named
        and name not in _HOPS
        and name not in _OURS
        and not name.startswith(("x-ratelimit-", "x-portico-", "access-control-"))
        and not (name == "set-cookie" and value.startswith(_our_cookies(session)))
    ]


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


def _named_by_connection(pairs: Pairs) -> frozenset[str]:
    lines = (value for name, value in pairs if name == "connection")
    return frozenset(spelling(one.strip()) for line in lines for one in line.split(","))


def _our_cookies(session: str) -> tuple[str, ...]:
    return tuple(f"{name}=" for name in (session, SECOND_STEP.name, DEVICE.name, PROVIDER.name))


def _without(cookies: str, session: str) -> str:
    """Cookies without Portico's own."""
    ours = _our_cookies(session)
    pairs = (pair.strip() for pair in cookies.split(";"))
    return "; ".join(pair for pair in pairs if pair and not pair.startswith(ours))
