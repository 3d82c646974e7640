"""Use cases of OAuth 2.0: grant a code, exchange it, revoke and introspect tokens.

Implements RFC 6749 with the security practice of RFC 9700, RFC 7009, RFC 7662 and OpenID Connect
Core.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec

from portico.change import Change
from portico.core.audit import Author
from portico.core.oauth import (
    CODE_SECONDS,
    PROMPTS,
    RESPONSE_MODES,
    AuthorizationRefused,
    Client,
    asked_scopes,
    code_challenge,
    consent_lasts,
    narrowed,
    redirect_allowed,
    spelled,
    verified,
)
from portico.core.scopes import of_role
from portico.core.secrets import (
    AUTHORIZATION_CODE,
    base64url,
    digest,
    from_base64url,
    mint,
)
from portico.core.sessions import LEVELS, Proof, Session, level
from portico.core.times import SECOND
from portico.core.users import User
from portico.data.database import UniqueViolation
from portico.data.vault import Vault
from portico.environment import Environment
from portico.features.access.documents import Documents, is_document
from portico.features.access.programs import serves
from portico.features.access.rules import ClientAuthorized, ClientChanged, ClientCreated
from portico.features.access.signing import Signer
from portico.features.access.storage import AuthorizationCode, Clients, Consent, Grants, OwnedToken
from portico.features.access.tokens import (
    Issued,
    begin,
    check_same,
    good_for_one_use,
    issue_first,
    proven,
    refresh_end,
    refreshable,
    target,
)
from portico.features.people.storage import Users
from portico.features.signin.rules import GrantRevoked
from portico.features.signin.storage import FactorStore, Sessions

_INVALID = "This code is not valid, has expired or was used before."


class ConsentRequest(NamedTuple):
    """What a client asks a user for, validated. `scopes` may exceed the user's role; they are
    narrowed to it when the user grants them. `resource` is as `tokens.target` returns it."""

    client: Client
    redirect_uri: str
    scopes: frozenset[str]
    nonce: str | None
    code_challenge: str | None
    resource: str | None = None


async def allowed_before(env: Environment, wanted: ConsentRequest, user: User) -> bool:
    """Whether nobody need be asked: the client is first-party, or the user has allowed all of this
    before, in the same role. `wanted.scopes` are narrowed to the role."""
    client, redirect = wanted.client, wanted.redirect_uri
    if client.first_party:
        return True
    if not consent_lasts(client, redirect):
        return False
    if client.origin == "document" and await _differs(env, client):
        return False
    known = await env[Grants].consent(user.id, client.id, redirect, wanted.resource)
    return known is not None and known.role == user.role and wanted.scopes <= known.scopes


async def _differs(env: Environment, client: Client) -> bool:
    """Whether a client's document says something else than when it was stored."""
    stored = await env[Clients].get(client.id)
    return stored is None or msgspec.structs.replace(client, scopes=stored.scopes) != stored


async def _stored(env: Environment, change: Change, client: Client) -> Client | None:
    """The locked row of a client. That of a document is made or changed to what the document says
    now; then what anybody has allowed it before is forgotten."""
    if client.origin != "document":
        return await change.lock(env[Clients], client.id)
    row = await env[Clients].by_client_id(client.client_id, change.tx)
    if row is None:
        row = await env[Clients].insert(change.tx, client)
        change.note(ClientCreated(row))
        return row
    now = msgspec.structs.replace(
        row,
        name=client.name,
        redirect_uris=client.redirect_uris,
        scopes=client.scopes,
        jwks=client.jwks,
        jwks_uri=client.jwks_uri,
    )
    if now != row:
        await env[Clients].update(change.tx, now)
        change.note(ClientChanged(now, row))
    if (now.name, now.redirect_uris) != (row.name, row.redirect_uris):
        await env[Grants].forget_consents_to(change.tx, row.id)
    return now


async def remember(
    env: Environment,
    change: Change,
    wanted: ConsentRequest,
    client: Client,
    user: User,
    scopes: frozenset[str],
) -> None:
    """Remembers that a user has allowed these scopes, if that may be remembered."""
    if consent_lasts(client, wanted.redirect_uri):
        consent = Consent(
            user_id=user.id,
            client_row_id=client.id,
            redirect_uri=wanted.redirect_uri,
            resource=wanted.resource or "",
            scopes=scopes,
            role=user.role,
            given_at=change.now,
        )
        await env[Grants].remember_consent(change.tx, consent)


async def grant_code(
    env: Environment, wanted: ConsentRequest, proof: Proof, by: Author, *, asked: bool = True
) -> str:
    """Issues a code for what the user of `by` grants, narrowed to their role; `proof` is how and
    when they authenticated. The consent of a user who was `asked` is remembered. Raises
    `AuthorizationRefused`."""
    code = mint(AUTHORIZATION_CODE, env.random)

    async def work(change: Change) -> None:
        user = await change.lock(env[Users], by.actor.user_id or 0)
        client = await _stored(env, change, wanted.client)
        if user is None or user.suspended_at is not None or client is None:
            raise AuthorizationRefused(
                "invalid_request",
                "The account was suspended or deleted, or the application was deleted.",
            )
        granted = AuthorizationCode(
            client_row_id=client.id,
            user_id=user.id,
            redirect_uri=wanted.redirect_uri,
            scopes=narrowed(wanted.scopes, of_role(user.role)),
            nonce=wanted.nonce,
            code_challenge=wanted.code_challenge,
            signed_in_at=proof.at,
            amr=proof.amr,
            resource=wanted.resource,
            sid=proof.sid,
            expires_at=change.now + CODE_SECONDS * SECOND,
        )
        await env[Grants].add_code(change.tx, digest(code), granted)
        if asked:
            await remember(env, change, wanted, client, user, granted.scopes)
        change.note(ClientAuthorized(client, granted.scopes))

    try:
        await env.change(by, work)
    except UniqueViolation:  # somebody else has just stored the client of the same document
        await env.change(by, work)
    return code


async def exchange_code(
    env: Environment,
    client: Client,
    by: Author,
    *,
    code: str,
    redirect_uri: str,
    verifier: str | None = None,
    resource: str | None = None,
) -> Issued:
    """Exchanges a code for tokens (RFC 6749 §4.1.3). Raises `AuthorizationRefused`.

    If a code is used a second time, the tokens of the first exchange are revoked.
    """
    await env[Signer].ready()
    code_hash = digest(code)
    found = await env[Grants].code(code_hash)
    if found is None or found.client_row_id != client.id:
        raise AuthorizationRefused("invalid_grant", _INVALID)

    async def work(change: Change) -> Issued | None:
        user = await change.lock(env[Users], found.user_id)
        if user is None or user.suspended_at is not None:
            return None
        if await change.lock(env[Clients], client.id) is None:
            return None
        stored = await env[Grants].code(code_hash, change.tx)
        if stored is None:
            return None
        if stored.grant_id is not None:
            if await env[Grants].revoke(change.tx, stored.grant_id, change.now):
                why = {"reason": "an authorization code was used twice"}
                change.note(GrantRevoked(stored.grant_id, user.id, why))
            return None
        if change.now >= stored.expires_at:
            return None
        if redirect_uri != stored.redirect_uri:
            raise AuthorizationRefused(
                "invalid_grant", "The code was issued for another redirect_uri."
            )
        if not verified(stored.code_challenge, verifier):
            raise AuthorizationRefused(
                "invalid_grant", "The code_verifier does not match this code."
            )
        check_same(env, resource, stored.resource)
        change.noted_elsewhere()  # when the user gave the consent
        grant = await begin(
            *(env, change, client, user.id),
            scopes=narrowed(stored.scopes, of_role(user.role)),
            proof=stored.proof,
            resource=stored.resource,
        )
        await env[Grants].spend_code(change.tx, code_hash, grant.id)
        return await issue_first(env, change, client, grant, user, stored.nonce)

    with good_for_one_use():
        exchanged = await env.change(by, work)
    if exchanged is None:
        raise AuthorizationRefused("invalid_grant", _INVALID)
    return exchanged


async def revoke_token(env: Environment, client: Client, token: str, by: Author) -> None:
    """Revokes a client's own token (RFC 7009): an access token alone, a refresh token with its
    whole family. Unknown tokens are ignored. Raises `AuthorizationRefused` for another
    client's token."""
    token_hash = digest(token)
    refresh = await env[Grants].by_refresh(token_hash)
    owned = refresh or await env[Grants].by_access(token_hash)
    if owned is None:
        return
    if owned.grant.client_row_id != client.id:
        raise AuthorizationRefused("invalid_grant", "This token was not issued to this client.")

    async def work(change: Change) -> None:
        if refresh is None:
            change.noted_elsewhere()  # not worth a note: it expires within the hour anyway
            await env[Grants].end_access(change.tx, owned.token.id)
        elif await env[Grants].revoke(change.tx, owned.grant.id, change.now):
            why = {"reason": "the client revoked it"}
            change.note(GrantRevoked(owned.grant.id, owned.grant.user_id, why))

    await env.change(by, work)


async def introspect(env: Environment, client: Client, token: str) -> dict[str, Any]:
    """Describes a client's own token, or an access token for its service (RFC 7662 §2.2); any other
    is reported as not active."""
    now = env.clock()
    token_hash = digest(token)
    owned = await env[Grants].by_access(token_hash)
    if (
        owned is not None
        and owned.holds(now)
        and (owned.grant.client_row_id == client.id or serves(env, client, owned))
    ):
        facts = _facts(env, owned, owned.token.access_expires_at, owned.token.scopes)
        return {"active": True, "token_type": "Bearer", **facts}
    owned = await env[Grants].by_refresh(token_hash)
    if owned is None or owned.grant.client_row_id != client.id or owned.token.used_at is not None:
        return {"active": False}
    if not refreshable(env, owned, now):
        return {"active": False}
    return {"active": True, **_facts(env, owned, refresh_end(env, owned), owned.grant.scopes)}


def _facts(env: Environment, owned: OwnedToken, end: int, scopes: frozenset[str]) -> dict[str, Any]:
    name = {"username": owned.email} if "email" in scopes else {}
    return {
        **name,
        **proven(owned.grant.proof),
        "scope": spelled(narrowed(scopes, of_role(owned.role))),
        "client_id": owned.client_id,
        "sub": str(owned.grant.user_id),
        "aud": owned.grant.resource or env.addresses.base,
        "iss": env.addresses.auth,
        "iat": owned.token.created_at // SECOND,
        "exp": end // SECOND,
    }


MAX_LENGTH = 2_000
MAX_STATE_LENGTH = 4_096
"""The longest values of parameters, in characters. An `id_token_hint` may be longer."""

_KNOWN = frozenset(
    (
        *("client_id", "redirect_uri", "response_type", "response_mode", "scope", "state"),
        *("nonce", "code_challenge", "code_challenge_method", "prompt", "max_age", "acr_values"),
        *("id_token_hint", "request", "request_uri", "registration", "resource", "login_hint"),
    )
)


class AuthorizationAnswer(NamedTuple):
    """What the browser takes back to a client: in the address, or by a form."""

    redirect_uri: str
    parameters: Mapping[str, str]
    by_form: bool = False

    @property
    def address(self) -> str:
        """The redirect URI with the parameters in its query."""
        uri = self.redirect_uri
        join = "?" if "?" not in uri else "" if uri[-1] in "?&" else "&"
        return f"{uri}{join}{urlencode(self.parameters)}"


class Returned(AuthorizationRefused):
    """A fault that is reported to the client, by what the browser takes back."""

    def __init__(
        self, error: str, message: str, client: Client, answer: AuthorizationAnswer
    ) -> None:
        super().__init__(error, message)
        self.client = client
        self.answer = answer


class AuthorizationRequest(NamedTuple):
    """A valid request. `max_age` is in seconds, `level` the lowest `acr` that is accepted, and
    `user_id` the only user who may answer it, if it names one."""

    wanted: ConsentRequest
    state: str | None
    prompt: frozenset[str]
    max_age: int | None
    level: str | None
    user_id: int | None
    by_form: bool = False

    @property
    def silent(self) -> bool:
        """Whether no page may be shown."""
        return "none" in self.prompt

    @property
    def sign_in_again(self) -> bool:
        """Whether the user must sign in for this very request."""
        return self.max_age == 0 or not self.prompt.isdisjoint({"login", "select_account"})

    def answer(self, issuer: str, **parameters: str) -> AuthorizationAnswer:
        """What the browser takes back to the client, with the issuer (RFC 9207)."""
        answer = _with_state(parameters, self.state, issuer)
        return AuthorizationAnswer(self.wanted.redirect_uri, answer, self.by_form)

    def refusal(self, issuer: str, error: str, message: str) -> Returned:
        """A refusal that is reported to the client."""
        answer = self.answer(issuer, error=error, error_description=message)
        return Returned(error, message, self.wanted.client, answer)


async def find_client(env: Environment, client_id: str) -> Client | None:
    """The client with this id, from the database or its own document. Raises
    `AuthorizationRefused`."""
    if is_document(client_id):
        return await env[Documents].client(client_id)
    return await env[Clients].by_client_id(client_id)


async def read_request(
    env: Environment, parameters: Sequence[tuple[str, str]]
) -> AuthorizationRequest:
    """The request with these parameters. Unknown ones are ignored, and empty ones count as omitted
    (RFC 6749 §3.1). Raises `AuthorizationRefused` and `Returned`."""
    known = [(name, value) for name, value in parameters if name in _KNOWN]
    first = {name: value for name, value in reversed(known) if value}
    for name in ("client_id", "redirect_uri"):
        if [one for one, _ in known].count(name) != 1 or name not in first:
            raise AuthorizationRefused("invalid_request", f"{name} must be sent exactly once.")
    client = await find_client(env, first["client_id"])
    if client is None:
        raise AuthorizationRefused("invalid_client", "There is no application with this client_id.")
    redirect_uri = first["redirect_uri"]
    if not redirect_allowed(client, redirect_uri):
        raise AuthorizationRefused(
            "invalid_request", "This redirect_uri is not registered for the application."
        )
    issuer = env.addresses.auth
    by_form = _single(known, "response_mode") == "form_post"
    state = _single(known, "state")  # is sent back as it came, even if empty
    try:
        _check(known, first)
        scopes = asked_scopes(client, first.get("scope"))
        wanted = ConsentRequest(
            client=client,
            redirect_uri=redirect_uri,
            scopes=scopes,
            resource=target(env, first.get("resource"), scopes),
            nonce=first.get("nonce"),
            code_challenge=code_challenge(
                first.get("code_challenge"),
                first.get("code_challenge_method"),
                required=client.public,
            ),
        )
        user_id = await _hinted(env, client, first.get("id_token_hint"))
        wishes = _prompt(first), _max_age(first), _level(first)
        return AuthorizationRequest(wanted, state, *wishes, user_id, by_form)
    except AuthorizationRefused as refused:
        refusal = {"error": refused.error, "error_description": refused.message}
        answer = AuthorizationAnswer(redirect_uri, _with_state(refusal, state, issuer), by_form)
        raise Returned(refused.error, refused.message, client, answer) from None


def _single(parameters: Sequence[tuple[str, str]], name: str) -> str | None:
    values = [value for one, value in parameters if one == name]
    return values[0] if len(values) == 1 else None


def _check(known: Sequence[tuple[str, str]], first: Mapping[str, str]) -> None:
    names = [name for name, _ in known]
    if names.count("resource") > 1:
        raise AuthorizationRefused("invalid_target", "Only one resource can be asked for.")
    if len(set(names)) < len(names):
        raise AuthorizationRefused("invalid_request", "A parameter was sent more than once.")
    for name, value in first.items():
        most = MAX_STATE_LENGTH if name == "state" else MAX_LENGTH
        if len(value) > most and name != "id_token_hint":
            raise AuthorizationRefused(
                "invalid_request", f"{name} is longer than {most} characters."
            )
    if not all(map(str.isprintable, first.values())):
        raise AuthorizationRefused(
            "invalid_request", "A parameter contains a character that is not printable."
        )
    for name, error in (
        ("request", "request_not_supported"),
        ("request_uri", "request_uri_not_supported"),
        ("registration", "registration_not_supported"),
    ):
        if name in first:
            raise AuthorizationRefused(error, f"{name} is not supported.")
    if "response_type" not in first:
        raise AuthorizationRefused("invalid_request", "response_type must be code.")
    if first["response_type"] != "code":
        raise AuthorizationRefused("unsupported_response_type", "response_type must be code.")
    if first.get("response_mode", "query") not in RESPONSE_MODES:
        raise AuthorizationRefused(
            "invalid_request", f"response_mode must be {' or '.join(RESPONSE_MODES)}."
        )


def _prompt(first: Mapping[str, str]) -> frozenset[str]:
    prompt = frozenset(first.get("prompt", "").split())
    if not prompt.issubset(PROMPTS) or ("none" in prompt and len(prompt) > 1):
        others = ", ".join(one for one in PROMPTS if one != "none")
        raise AuthorizationRefused("invalid_request", f"prompt must be none, or some of {others}.")
    return prompt


def _max_age(first: Mapping[str, str]) -> int | None:
    text = first.get("max_age")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise AuthorizationRefused("invalid_request", "max_age must be a number of seconds.")
    return int(text)


def _level(first: Mapping[str, str]) -> str | None:
    """The wanted `acr`. Unknown values are ignored: `acr_values` is voluntary (OpenID Connect Core
    §5.5.1.1)."""
    asked = first.get("acr_values", "").split()
    return next((level for level in LEVELS if level in asked), None)


async def _hinted(env: Environment, client: Client, hint: str | None) -> int | None:
    """The user of an `id_token_hint`: nobody else may answer the request (OpenID Connect Core
    §3.1.2.2)."""
    if hint is None:
        return None
    claims = await env[Signer].claims_of(hint)
    if claims is None or claims.aud != client.client_id:
        raise AuthorizationRefused(
            "invalid_request", "id_token_hint must be an ID token of this client."
        )
    return int(claims.sub)


def _with_state(parameters: Mapping[str, str], state: str | None, issuer: str) -> dict[str, str]:
    return {**parameters, **({} if state is None else {"state": state}), "iss": issuer}


PARAMETER = "asked_at"
SECONDS = 1_800
"""How many seconds a user may take to sign in and decide before they must sign in again."""

Parameters = Sequence[tuple[str, str]]


class _Stamp(NamedTuple):
    """The time of a request (epoch milliseconds), and the id of the latest session at that time."""

    at: int
    latest_id: int


def wants_fresh_sign_in(asked: AuthorizationRequest) -> bool:
    """Whether the request restricts when the user signed in."""
    return asked.sign_in_again or asked.max_age is not None


async def stamped(env: Environment, parameters: Parameters, now: int) -> str:
    """The query of a request that is made now, with its stamp."""
    query = _unstamped(parameters)
    stamp = f"{now} {await env[Sessions].latest_id()}"
    concealed = env[Vault].conceal(stamp.encode(), _name(env, query))
    return f"{query}&{PARAMETER}={base64url(concealed)}"


async def signed_in_for(
    env: Environment, asked: AuthorizationRequest, parameters: Parameters, session: Session
) -> bool:
    """Whether a session belongs to the user whom the request names, if any, and is as fresh and as
    strong as the request wants; `parameters` are those of the request. A weaker sign-in is accepted
    from users who have no second factor."""
    if asked.user_id not in (None, session.user_id):
        return False
    if not _fresh(env, asked, parameters, session):
        return False
    if asked.level is None or asked.level <= level(session.amr):
        return True
    return not await env[FactorStore].of_user(session.user_id)


def _fresh(
    env: Environment, asked: AuthorizationRequest, parameters: Parameters, session: Session
) -> bool:
    now, signed_in_at = env.clock(), session.created_at
    recent = asked.max_age is None or now - signed_in_at <= asked.max_age * SECOND
    if recent and not asked.sign_in_again:
        return True
    stamp = _stamp(env, parameters)
    if stamp is None or now - stamp.at >= SECONDS * SECOND:
        return False
    # Ids are compared, not times, because the clocks of hosts differ.
    return session.id > stamp.latest_id


def _stamp(env: Environment, parameters: Parameters) -> _Stamp | None:
    """The stamp that a request carries, if it is valid."""
    try:
        concealed = from_base64url(dict(parameters).get(PARAMETER, ""))
    except ValueError:
        return None
    stamp = env[Vault].reveal(concealed, _name(env, _unstamped(parameters)))
    return _Stamp(*map(int, stamp.split())) if stamp else None


def _unstamped(parameters: Parameters) -> str:
    return urlencode([(name, value) for name, value in parameters if name != PARAMETER])


def _name(env: Environment, query: str) -> str:
    return f"{env.name} asked {query}"
