"""The relying party of other identity providers: OpenID Connect Core 1.0 with the code flow,
discovery, PKCE (RFC 7636), and the issuer in the authorization response (RFC 9207). Of a provider
that has only OAuth 2.0, who has signed in is read from its own API.

A provider is trusted to identify people and in nothing else: the size of its answers is bounded,
and the log says why an answer was refused.
"""

import logging
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hmac import compare_digest
from hmac import digest as mac
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote_plus, urlencode
from warnings import catch_warnings

import msgspec
from joserfc import jws
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import import_key

from portico.core.errors import BrokenRule, PermissionDenied, Unavailable
from portico.core.oauth import CHALLENGE_METHOD, OPENID_SCOPES, challenge_of
from portico.core.providers import VISIT_SECONDS, Person, PlainOAuth, Provider, is_address
from portico.core.secrets import base64url
from portico.core.text import text_fault
from portico.core.times import MINUTE, SECOND, Clock
from portico.core.users import email, mail_domain
from portico.outbound.fetching import Fetched, Fetcher, Unfetched

ALGORITHMS = [
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "Ed25519", "EdDSA"),
]
"""Accepted signatures of ID tokens: those of published keys, never `none` or HMAC. Most providers
that sign with Ed25519 call it EdDSA, as RFC 8037 does."""

KEPT = 10 * MINUTE
"""How long a provider's metadata is cached, in milliseconds. Its keys are fetched for each sign-in,
so that rotated and withdrawn keys are noticed."""

SKEW = 60
"""By how many seconds the provider's clock may differ from ours."""

_REGISTRY = jws.JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)

_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
"""Key types by the first two letters of the algorithm (RFC 7518 §3.1, RFC 9864 §2.2)."""

_DOTS_OF_JWE = 4
"""Dots of an encrypted token, which has five parts (RFC 7516 §3.1)."""

_SHORTEST_MODULUS = 342
"""The length in base64url of the modulus of an RSA key with 2,048 bits (RFC 7518 §3.3)."""

log = logging.getLogger(__name__)

T = TypeVar("T")


class NotAccepted(PermissionDenied):
    """The provider's answer does not authenticate anybody."""


class _InvalidAnswer(Exception):
    """An answer of a provider is invalid; the message is for the log."""


class LoginAttempt(NamedTuple):
    """Values that are sent to the provider and must come back, derived from a visit's secret."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def of(cls, secret: str) -> "LoginAttempt":
        """The attempt of the visit with this secret."""
        made = (mac(secret.encode(), field.encode(), "sha256") for field in cls._fields)
        return cls(*map(base64url, made))


class ProviderAnswer(NamedTuple):
    """The parameters that the browser brings back (RFC 6749 §4.1.2, RFC 9207); missing ones are
    empty."""

    code: str
    state: str
    iss: str
    error: str

    def belongs_to(self, attempt: LoginAttempt) -> bool:
        """Whether its `state` is that of this visit."""
        return compare_digest(self.state.encode(), attempt.state.encode())


class _Metadata(msgspec.Struct, frozen=True):
    """OpenID Connect Discovery 1.0 §3."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False
    claims_supported: Any = ()


class _Tokens(msgspec.Struct):
    id_token: str
    access_token: str | None = None


class _PlainTokens(msgspec.Struct):
    access_token: str


_AS_JSON = {"accept": "application/json", "user-agent": "Portico"}
"""GitHub answers otherwise with a form, and refuses programs that do not say who they are."""


class _Keys(msgspec.Struct):
    keys: list[dict[str, Any]]


class _Facts(msgspec.Struct):
    """The claims about a person in an ID token or from the userinfo endpoint."""

    sub: str
    email: Any = None
    email_verified: Any = None
    name: Any = None


class _Claims(_Facts, kw_only=True):
    """The claims of an ID token (OpenID Connect Core §2, RFC 7519 §4.1.5)."""

    iss: str
    aud: str | list[str]
    exp: float
    nbf: float | None = None
    nonce: str
    azp: str | None = None
    auth_time: Any = None


class RelyingParty:
    """Authenticates people at identity providers."""

    def __init__(self, fetcher: Fetcher, clock: Clock) -> None:
        self._fetcher = fetcher
        self._clock = clock
        self._known: dict[str, tuple[int, _Metadata]] = {}

    async def address(
        self, provider: Provider, attempt: LoginAttempt, redirect_uri: str, *, again: bool
    ) -> str:
        """The address to send the browser to. With `again` the provider must authenticate the
        person anew. Raises `Unavailable`."""
        asked = {
            "response_type": "code",
            "client_id": provider.client_id,
            "redirect_uri": redirect_uri,
            "state": attempt.state,
            "code_challenge": challenge_of(attempt.verifier),
            "code_challenge_method": CHALLENGE_METHOD,
        }
        if provider.plain is not None:
            endpoint = provider.plain.authorization_endpoint
            asked |= {"scope": provider.plain.scope}
        else:
            endpoint = (await self._metadata(provider)).authorization_endpoint
            asked |= {"scope": " ".join(OPENID_SCOPES), "nonce": attempt.nonce}
        if again:
            # Some providers let ID tokens expire `max_age` after the password was checked, so it
            # leaves time for a second factor.
            asked |= {"prompt": "login", "max_age": str(VISIT_SECONDS)}
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}"

    async def person(
        self,
        provider: Provider,
        attempt: LoginAttempt,
        redirect_uri: str,
        answer: ProviderAnswer,
        *,
        since: int | None,
    ) -> Person:
        """The person who has signed in at the provider, from an answer that belongs to the visit.
        `since` (epoch milliseconds) is set if they had to authenticate anew: it is the earliest
        time for that. Raises `NotAccepted` and `Unavailable`."""
        try:
            if provider.plain is not None:
                return await self._plain_person(
                    provider, provider.plain, attempt, redirect_uri, answer.code
                )
            metadata = await self._metadata(provider)
            _check_issuer(provider, metadata, answer)
            tokens = await self._exchange(provider, metadata, attempt, redirect_uri, answer.code)
            claims = await self._claims(metadata, tokens.id_token)
            _check_claims(provider, claims, attempt.nonce, self._clock())
            if since is not None:
                _check_seen(metadata, claims, since)
            return _person(await self._facts(metadata, tokens, claims))
        except _InvalidAnswer as error:
            log.warning("%s signed nobody in: %s", provider.name, error)
            raise NotAccepted(
                f"The answer of {provider.label} was not valid, so you were not signed in. Try"
                " again; if it happens again, tell your administrator: the log says what was wrong."
            ) from None
        except Unfetched as error:
            raise _away(provider, error) from None

    async def _plain_person(
        self,
        provider: Provider,
        plain: PlainOAuth,
        attempt: LoginAttempt,
        redirect_uri: str,
        code: str,
    ) -> Person:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": attempt.verifier,
            "client_id": provider.client_id,
            "client_secret": provider.client_secret,
        }
        answer = await self._fetcher.post(plain.token_endpoint, _AS_JSON, form)
        token = _header_safe(_read(answer, _PlainTokens).access_token)
        headers = {**_AS_JSON, "authorization": f"Bearer {token}"}
        user = _read(await self._fetcher.get(plain.user_endpoint, headers), dict[str, Any])
        emails = [user]
        if plain.emails_endpoint is not None:
            answer = await self._fetcher.get(plain.emails_endpoint, headers)
            emails = _read(answer, list[dict[str, Any]])
        subject, name = user.get(plain.subject_field), user.get(plain.name_field)
        if isinstance(subject, int) and not isinstance(subject, bool):
            subject = str(subject)
        if not isinstance(subject, str):
            raise _InvalidAnswer(f"it names nobody: {plain.subject_field} is missing")
        address = _verified_email(provider, plain, emails)
        return _person(_Facts(subject, address, email_verified=True, name=name))

    async def _metadata(self, provider: Provider) -> _Metadata:
        known = self._known.get(provider.issuer)
        if known is not None and 0 <= self._clock() - known[0] < KEPT:
            return known[1]
        url = f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            metadata = _read(await self._fetcher.get(url, {}), _Metadata)
            _check_metadata(provider, metadata)
        except (Unfetched, _InvalidAnswer) as error:
            raise _away(provider, error) from None
        self._known[provider.issuer] = (self._clock(), metadata)
        return metadata

    async def _exchange(
        self,
        provider: Provider,
        metadata: _Metadata,
        attempt: LoginAttempt,
        redirect_uri: str,
        code: str,
    ) -> _Tokens:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": attempt.verifier,
        }
        headers = {}
        if "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            # RFC 6749 §2.3.1: each is form-encoded before HTTP Basic joins them.
            pair = f"{quote_plus(provider.client_id)}:{quote_plus(provider.client_secret)}"
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": provider.client_id, "client_secret": provider.client_secret}
        return _read(await self._fetcher.post(metadata.token_endpoint, headers, form), _Tokens)

    async def _claims(self, metadata: _Metadata, token: str) -> _Claims:
        if token.count(".") == _DOTS_OF_JWE:
            raise _InvalidAnswer("its ID token is encrypted; have the provider only sign it")
        published = _read(await self._fetcher.get(metadata.jwks_uri, {}), _Keys)
        try:
            header = jws.extract_compact(token.encode()).headers()
            algorithm = header["alg"]
        except (JoseError, ValueError, TypeError) as error:  # TypeError if the header is a list
            raise _InvalidAnswer(f"its ID token cannot be read: {error}") from None
        if algorithm not in ALGORITHMS:
            raise _InvalidAnswer(f"its ID token is signed by {algorithm!r:.20}")
        for key in published.keys:
            if _fits(key, header) and (payload := _verified(token, key)) is not None:
                return _decoded(payload, _Claims)
        raise _InvalidAnswer("no key that it publishes has signed its ID token")

    async def _facts(self, metadata: _Metadata, tokens: _Tokens, claims: _Claims) -> _Facts:
        """The claims about the person: of the ID token, or of the userinfo endpoint if the ID
        token has no e-mail."""
        endpoint = metadata.userinfo_endpoint
        if claims.email is not None or endpoint is None or tokens.access_token is None:
            return claims
        bearer = {"authorization": f"Bearer {_header_safe(tokens.access_token)}"}
        facts = _read(await self._fetcher.get(endpoint, bearer), _Facts)
        if facts.sub != claims.sub:  # OpenID Connect Core §5.3.2
            raise _InvalidAnswer("its userinfo is about another subject")
        return facts


def _away(provider: Provider, error: Exception) -> Unavailable:
    log.warning("%s cannot be asked: %s", provider.name, error)
    return Unavailable(
        f"{provider.label} does not respond as it should, so you cannot sign in with it at the"
        " moment. Try again later, or sign in another way.",
        30,
    )


def _check_metadata(provider: Provider, metadata: _Metadata) -> None:
    if metadata.issuer != provider.issuer:
        raise _InvalidAnswer(f"it calls itself {metadata.issuer!r:.200}, not {provider.issuer!r}")
    endpoints = (metadata.authorization_endpoint, metadata.token_endpoint, metadata.jwks_uri)
    for endpoint in (*endpoints, metadata.userinfo_endpoint or provider.issuer):
        if not is_address(endpoint):
            raise _InvalidAnswer(f"its endpoint {endpoint!r:.200} is not https")


def _check_issuer(provider: Provider, metadata: _Metadata, answer: ProviderAnswer) -> None:
    """The issuer of the answer is the provider that was asked (RFC 9207 §2.4)."""
    wanted = metadata.authorization_response_iss_parameter_supported
    if (answer.iss or wanted) and answer.iss != provider.issuer:
        raise _InvalidAnswer(f"the answer has the issuer {answer.iss!r:.200}")


def _check_claims(provider: Provider, claims: _Claims, nonce: str, now: int) -> None:
    """The claims of the ID token are valid (OpenID Connect Core §3.1.3.7)."""
    audience = [claims.aud] if isinstance(claims.aud, str) else claims.aud
    if claims.iss != provider.issuer:
        raise _InvalidAnswer("its ID token has another issuer")
    if provider.client_id not in audience:
        raise _InvalidAnswer("its ID token is for another client")
    if claims.azp != provider.client_id and (claims.azp is not None or len(audience) > 1):
        raise _InvalidAnswer("its ID token was issued to another client")
    if not now / SECOND < claims.exp + SKEW:
        raise _InvalidAnswer("its ID token has expired")
    if claims.nbf is not None and now / SECOND < claims.nbf - SKEW:
        raise _InvalidAnswer("its ID token is not valid yet")
    if not compare_digest(claims.nonce.encode(), nonce.encode()):
        raise _InvalidAnswer("its ID token has another nonce")


def _check_seen(metadata: _Metadata, claims: _Claims, since: int) -> None:
    """The person authenticated after `since`. A token that answers `max_age` must have `auth_time`,
    in seconds (OpenID Connect Core §2); a provider that does not list that claim is trusted
    without."""
    seen, listed = claims.auth_time, metadata.claims_supported
    if seen is None and not (isinstance(listed, list) and "auth_time" in listed):
        return
    if not isinstance(seen, int | float):
        raise _InvalidAnswer("its ID token has no valid auth_time")
    if seen + SKEW < since // SECOND:
        raise _InvalidAnswer("it did not authenticate the user again")


def _person(facts: _Facts) -> Person:
    if not 1 <= len(facts.sub) <= 255 or text_fault(facts.sub):
        raise _InvalidAnswer("its sub is not valid")
    try:
        address = email(facts.email) if isinstance(facts.email, str) else ""
    except BrokenRule:
        address = ""
    name = facts.name if isinstance(facts.name, str) and not text_fault(facts.name) else ""
    # JumpCloud and Cognito send the word. `in` would take 1 for True.
    verified = facts.email_verified is True or facts.email_verified == "true"
    return Person(facts.sub, address, verified, name)


def _verified_email(
    provider: Provider, plain: PlainOAuth, emails: Sequence[Mapping[str, Any]]
) -> str | None:
    """The first e-mail that the provider has verified: of `domains` if there are any, and the
    primary one before others."""
    found = []
    for one in emails:
        address = one.get(plain.email_field)
        if one.get(plain.email_verified_field) is True and isinstance(address, str):
            with suppress(BrokenRule):
                address = email(address)
                other = mail_domain(address) not in provider.domains
                found.append((other, one.get("primary") is not True, address))
    return min(found, key=lambda one: one[:2])[2] if found else None


def _fits(key: dict[str, Any], header: dict[str, Any]) -> bool:
    """Whether a key may have signed a token with this header."""
    kind = _KEY_TYPES[header["alg"][:2]]
    return (
        header.get("kid") in (None, key.get("kid"))
        and key.get("kty") == kind
        and (kind != "RSA" or len(str(key.get("n"))) >= _SHORTEST_MODULUS)
    )


def _verified(token: str, key: dict[str, Any]) -> bytes | None:
    """The payload of a token, if this key signed it, otherwise None."""
    try:
        with catch_warnings(action="ignore", category=SecurityWarning):  # about the name EdDSA
            return jws.deserialize_compact(token, import_key(key), registry=_REGISTRY).payload
    except (JoseError, ValueError, TypeError, LookupError):  # LookupError: curve of another type
        return None


def _read(answer: Fetched, shape: type[T]) -> T:
    if answer.status != 200:
        refusal = Unfetched if answer.status == 429 or answer.status >= 500 else _InvalidAnswer
        raise refusal(f"it answered with the status {answer.status}{_error(answer.body)}")
    return _decoded(answer.body, shape)


def _error(body: bytes) -> str:
    """The code of an OAuth error (RFC 6749 §5.2), which contains no secret."""
    try:
        answer: Mapping[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    except (ValueError, RecursionError):
        return ""
    return f" and {answer['error']!r:.100}" if "error" in answer else ""


def _decoded(body: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=shape)
    except (ValueError, RecursionError) as error:
        raise _InvalidAnswer(f"it answered with something else{_error(body)}: {error}") from None


def _header_safe(text: str) -> str:
    if not text.isascii() or not text.isprintable():
        raise _InvalidAnswer("its access token is not valid in a header")
    return text
