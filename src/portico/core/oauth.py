"""OAuth 2.0 and OpenID Connect: clients, the scopes they may request, and PKCE.

RFC 6749, 7636, 8252 and 9700; OpenID Connect Core 1.0.
"""

import re
from collections.abc import Collection
from hashlib import sha256
from hmac import compare_digest
from typing import Literal
from urllib.parse import unquote, urlsplit

import msgspec

from portico.core.errors import BrokenRule, Unreadable
from portico.core.rules import Trimmed
from portico.core.scopes import SCOPES
from portico.core.secrets import Random, base64url

CLIENT_CREDENTIALS = "client_credentials"
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - the name of it
EXTRA_GRANTS = {
    "client_credentials": CLIENT_CREDENTIALS,
    "device_code": DEVICE_CODE,
    "token_exchange": TOKEN_EXCHANGE,
}
"""The grants that a client must be registered for, by the names that operators use (RFC 6749 §4.4,
RFC 8628, RFC 8693)."""

GRANT_TYPES = ("authorization_code", "refresh_token", *EXTRA_GRANTS.values())
"""The grant types of the token endpoint (RFC 6749 §4.1.3 and §6)."""

CLIENT_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
"""What a client's assertion is (RFC 7523 §2.2)."""

ACCESS_TOKEN_KIND = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a name
"""What an access token is called in an exchange (RFC 8693 §3)."""

EXCHANGED_SECONDS = 600
"""How long a token that was exchanged is valid at most."""

CHALLENGE_METHOD = "S256"
"""The only challenge method that is accepted, and used with providers (RFC 7636 §4.2)."""

RESPONSE_MODES = ("query", "form_post")
"""How the browser takes an answer back: in the address, or by a form (OAuth 2.0 Form Post Response
Mode)."""

PROMPTS = ("none", "login", "consent", "select_account")
"""The values of `prompt` (OpenID Connect Core §3.1.2.1)."""

ACCESS_SECONDS = 3_600
REFRESH_SECONDS = 30 * 86_400
CODE_SECONDS = 60
DEVICE_CODE_SECONDS = 900
POLL_SECONDS = 5
"""How long a device waits between two requests, and how much longer after `slow_down` (RFC 8628
§3.5)."""

OPENID_WORDS = {
    "openid": "Know who you are",
    "profile": "See your name and picture",
    "email": "See your e-mail address",
}
"""What each OpenID scope lets a client do."""

OPENID_SCOPES = tuple(OPENID_WORDS)
"""Scopes open to every client; they give no access to the API."""

OFFLINE_ACCESS = "offline_access"
"""The scope of OpenID Connect Core §11."""

client_name = Trimmed(1, 100)
MAX_URIS = 20
MAX_URI_LENGTH = 2_000

_LOOPBACK = frozenset({"127.0.0.1", "[::1]", "localhost"})
_FORBIDDEN_SCHEMES = frozenset(
    {
        *("javascript", "data", "vbscript", "file", "blob", "about", "filesystem", "view-source"),
        *("urn", "ftp", "ws", "wss", "mailto", "tel", "sms"),
    }
)
"""Schemes that browsers run or know, and that no application can have as its own."""
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*\Z")
_URI = re.compile(r"[!-~]+\Z")
_UNDESCRIBABLE = re.compile(r'[^ -~]|["\\]')
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}\Z")
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}\Z")


class AuthorizationRefused(Unreadable):
    """An OAuth request was refused; `error` is the code of RFC 6749 §4.1.2.1 or §5.2. These allow
    only some characters in a description: others become question marks."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(_UNDESCRIBABLE.sub("?", message))
        self.error = error


Origin = Literal["registered", "document", "dynamic"]
"""Who made a client known: somebody here, its own document, or itself (RFC 7591)."""


class Client(msgspec.Struct, frozen=True):
    """A registered application. `secret_hash` is None for one without a secret, `user_id` if its
    owner was deleted. `id` is the row's; the application identifies itself by `client_id`."""

    id: int
    client_id: str
    secret_hash: bytes | None
    user_id: int | None
    name: str
    redirect_uris: tuple[str, ...]
    scopes: frozenset[str]
    created_at: int
    first_party: bool = False
    """Whether it is the operator's own: its users are not asked for consent."""
    grants: tuple[str, ...] = ()
    """The grants beyond codes and refresh tokens that it may use; some of `EXTRA_GRANTS`."""
    service: str | None = None
    """The service whose tokens it may introspect, whoever's they are."""
    origin: Origin = "registered"
    post_logout_redirect_uris: tuple[str, ...] = ()
    backchannel_logout_uri: str | None = None
    """Where logout tokens are sent (OpenID Connect Back-Channel Logout 1.0)."""
    jwks: str | None = None
    """Its public keys, as `client_keys.key_set` returns them."""
    jwks_uri: str | None = None
    """Where its public keys are, if they are not here."""

    @property
    def signs(self) -> bool:
        """Whether it proves who it is with its own key instead of a secret (RFC 7523)."""
        return self.jwks is not None or self.jwks_uri is not None

    @property
    def public(self) -> bool:
        """Whether it can prove nothing, as a native or single-page application."""
        return self.secret_hash is None and not self.signs

    @property
    def title(self) -> str:
        """What people see it as: its name, or if nobody here has checked that, the host of its
        document."""
        return urlsplit(self.client_id).netloc if self.origin == "document" else self.name

    @property
    def registered(self) -> frozenset[str]:
        """The scopes that it may request: always those of OpenID, and all if it has `admin`."""
        return implied(self.scopes).union(OPENID_SCOPES)


def implied(scopes: frozenset[str]) -> frozenset[str]:
    """These scopes, plus all of the API's if `admin` is among them."""
    return scopes.union(SCOPES) if "admin" in scopes else scopes


def client_scopes(text: str) -> frozenset[str]:
    """Reads the space-separated scopes that a client may request. Raises `BrokenRule`."""
    scopes = frozenset(text.split()) - frozenset(OPENID_SCOPES)
    if unknown := sorted(scopes - frozenset(SCOPES)):
        raise BrokenRule(f"must be some of {', '.join(SCOPES)}, not {', '.join(unknown)}")
    return scopes


def redirect_uri(text: str) -> str:
    """Accepts a redirect URI: https, http on a loopback address, or a native application's own
    scheme (RFC 8252 §7); no fragment, no user. Raises `BrokenRule`."""
    if len(text) > MAX_URI_LENGTH or not _URI.match(text):
        raise BrokenRule(f"must be an absolute URI of at most {MAX_URI_LENGTH} ASCII characters")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise BrokenRule("must be an absolute URI") from None
    if not _SCHEME.match(parts.scheme) or parts.scheme in _FORBIDDEN_SCHEMES:
        raise BrokenRule("must begin with https://, or a scheme such as com.example.app:")
    if "#" in text or "\\" in text or "@" in parts.netloc:
        raise BrokenRule("must have no fragment, no user and no backslash")
    if "*" in unquote(parts.netloc):
        raise BrokenRule("must name its host: a * in it does not stand for other hosts")
    if parts.scheme == "https":
        if not parts.hostname:
            raise BrokenRule("must name its host")
        return text
    if parts.scheme == "http":
        if _host(text) in _LOOPBACK and port != 0:
            return text
        raise BrokenRule("must begin with https://; http:// is for loopback addresses only")
    return text


def redirect_allowed(client: Client, uri: str) -> bool:
    """Whether a code may be sent to this URI: it must equal a registered one exactly, except for
    the port of a loopback address (RFC 8252 §7.3)."""
    if uri in client.redirect_uris:
        return True
    bare = _without_loopback_port(uri)
    return bare is not None and any(
        _without_loopback_port(known) == bare for known in client.redirect_uris
    )


def _host(uri: str) -> str:
    authority = re.split(r"[/?#]", uri.partition("://")[2], maxsplit=1)[0]
    return re.sub(r":\d{0,5}\Z", "", authority)


def page_origin(uri: str) -> str | None:
    """The origin of pages at a redirect URI, as browsers spell it (RFC 6454 §6.2), without the port
    of a loopback address. None for a scheme that has no pages."""
    parts = urlsplit(_without_loopback_port(uri) or uri)
    if parts.scheme not in ("http", "https"):
        return None
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port not in (None, 443) else ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}"


def is_page_of(origins: Collection[str], origin: str) -> bool:
    """Whether this origin of a page is among those that `page_origin` returned."""
    return origin in origins or _without_loopback_port(origin) in origins


_LOOPBACK_URI = re.compile(r"http://(127\.0\.0\.1|\[::1\]|localhost)(?::(\d{1,5}))?(?=[/?]|\Z)")


def _without_loopback_port(uri: str) -> str | None:
    """The URI without its port, None unless its host is a loopback address."""
    found = _LOOPBACK_URI.match(uri)
    if found is None or not 0 < int(found[2] or 80) < 65_536 or not _URI.match(uri) or "#" in uri:
        return None
    return f"http://{found[1]}{uri[found.end() :]}"


_USER_CODE_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
_USER_CODE_LENGTH = 8


def mint_user_code(random: Random) -> str:
    """A new code for people to type: 8 letters without vowels, so that it is no word (RFC 8628
    §6.1)."""
    number = int.from_bytes(random(16))
    letters = []
    for _ in range(_USER_CODE_LENGTH):
        number, at = divmod(number, len(_USER_CODE_LETTERS))
        letters.append(_USER_CODE_LETTERS[at])
    return "".join(letters)


def read_user_code(typed: str) -> str:
    """A code as it was minted, from what somebody typed: in any case, with or without hyphen."""
    return "".join(filter(str.isalpha, typed)).upper()


def spelled_user_code(code: str) -> str:
    """A code as people see it, such as `WDJB-MJHT`."""
    half = _USER_CODE_LENGTH // 2
    return f"{code[:half]}-{code[half:]}"


def consent_lasts(client: Client, redirect: str) -> bool:
    """Whether a consent may be remembered: not where any program on the user's device could pose as
    the client (RFC 9700 §4.13)."""
    return not client.public or redirect.startswith("https://")


def asked_scopes(client: Client, text: str | None) -> frozenset[str]:
    """The scopes of an authorization request, without those that the client is not registered for;
    all of the client's if none is given.

    Raises `AuthorizationRefused` (`invalid_scope`) where none is left.
    """
    asked = asked_names(text)
    if not asked:
        return client.scopes
    if not asked & client.registered:
        raise AuthorizationRefused(
            "invalid_scope", f"This client is not registered for {' '.join(sorted(asked))[:200]}."
        )
    return asked & client.registered


def asked_names(text: str | None) -> frozenset[str]:
    """The scopes that a request names, but for `offline_access`, which changes nothing: there is
    always a refresh token."""
    return frozenset((text or "").split()) - {OFFLINE_ACCESS}


def narrowed(scopes: frozenset[str], role_scopes: frozenset[str]) -> frozenset[str]:
    """The part of the requested scopes that a user with these `role_scopes` can grant. `admin`
    implies all others, so it is narrowed to all that the role has."""
    if "admin" in scopes - role_scopes:
        scopes |= role_scopes
    return scopes & (role_scopes | frozenset(OPENID_SCOPES))


def spelled(scopes: frozenset[str]) -> str:
    """Scopes as OAuth writes them: space-separated, in a fixed order."""
    return " ".join(scope for scope in (*OPENID_SCOPES, *SCOPES) if scope in scopes)


def code_challenge(challenge: str | None, method: str | None, *, required: bool) -> str | None:
    """Accepts the challenge of an authorization request (RFC 7636 §4.3): only S256, `required` from
    public clients. Raises `AuthorizationRefused` (`invalid_request`)."""
    if challenge is None:
        if required or method is not None:
            raise AuthorizationRefused(
                "invalid_request", "This client must send a code_challenge (PKCE)."
            )
        return None
    if method != CHALLENGE_METHOD:
        raise AuthorizationRefused(
            "invalid_request", f"code_challenge_method must be {CHALLENGE_METHOD}."
        )
    if not _CHALLENGE.match(challenge):
        raise AuthorizationRefused(
            "invalid_request", "code_challenge must be 43 characters of base64url."
        )
    return challenge


def verified(challenge: str | None, verifier: str | None) -> bool:
    """Whether a verifier matches a challenge (RFC 7636 §4.6). Without a challenge, there must be no
    verifier (RFC 9700 §4.8.2)."""
    if challenge is None or verifier is None:
        return challenge is None and verifier is None
    if not _VERIFIER.match(verifier):
        return False
    return compare_digest(challenge_of(verifier), challenge)


def challenge_of(verifier: str) -> str:
    """The challenge of a verifier, by S256 (RFC 7636 §4.2)."""
    return base64url(sha256(verifier.encode()).digest())


def resource_metadata(resource: str) -> str:
    """Where the metadata of the resource at this address is (RFC 9728 §3.1)."""
    parts = urlsplit(resource)
    return f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
