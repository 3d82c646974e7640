"""Reads authorization requests (RFC 6749 §4.1.1, OpenID Connect Core §3.1.2).

Until the client and its redirect URI are known to be valid, nothing may be sent there: a fault
raises `Refused`, and a page tells the user. After that a fault raises `Returned`, and the client is
told.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from portico.domain.oauth import (
    PROMPTS,
    Client,
    Refused,
    asked_scopes,
    code_challenge,
    redirect_allowed,
)
from portico.domain.proofs import LEVELS
from portico.services.authorization import ConsentRequest
from portico.services.environment import Environment
from portico.services.signing import Signer
from portico.storage.clients import Clients

MAX_LENGTH = 2_000
MAX_STATE_LENGTH = 4_096
"""The longest values of parameters, in characters. An `id_token_hint` may be longer."""

_KNOWN = frozenset(
    (
        *("client_id", "redirect_uri", "response_type", "response_mode", "scope", "state"),
        *("nonce", "code_challenge", "code_challenge_method", "prompt", "max_age", "acr_values"),
        *("id_token_hint", "request", "request_uri", "registration"),
    )
)


class Returned(Refused):
    """A fault that is reported to the client: the browser is redirected to `address`."""

    def __init__(self, error: str, message: str, address: str) -> None:
        super().__init__(error, message)
        self.address = address


class AuthorizationRequest(NamedTuple):
    """A valid request. `max_age` is in seconds, `level` the lowest `acr` that is accepted, and
    `user_id` the only user who may answer it, if it names one."""

    wanted: ConsentRequest
    state: str | None
    prompt: frozenset[str]
    max_age: int | None
    level: str | None
    user_id: int | None

    @property
    def silent(self) -> bool:
        """Whether no page may be shown."""
        return "none" in self.prompt

    @property
    def sign_in_again(self) -> bool:
        """Whether the user must sign in for this very request."""
        return self.max_age == 0 or not self.prompt.isdisjoint({"login", "select_account"})

    def answer(self, issuer: str, **parameters: str) -> str:
        """The address that takes the browser back to the client, with the issuer (RFC 9207)."""
        return _address(self.wanted.redirect_uri, self.state, issuer, parameters)

    def refusal(self, issuer: str, error: str, message: str) -> Returned:
        """A refusal that is reported to the client."""
        where = self.answer(issuer, error=error, error_description=message)
        return Returned(error, message, where)


async def read_request(
    env: Environment, parameters: Sequence[tuple[str, str]]
) -> AuthorizationRequest:
    """The request with these parameters. Unknown ones are ignored, and empty ones count as omitted
    (RFC 6749 §3.1). Raises `Refused` and `Returned`."""
    known = [(name, value) for name, value in parameters if name in _KNOWN]
    first = {name: value for name, value in reversed(known) if value}
    for name in ("client_id", "redirect_uri"):
        if [one for one, _ in known].count(name) != 1 or name not in first:
            raise Refused("invalid_request", f"{name} must be sent exactly once.")
    client = await env[Clients].by_client_id(first["client_id"])
    if client is None:
        raise Refused("invalid_client", "There is no application with this client_id.")
    redirect_uri = first["redirect_uri"]
    if not redirect_allowed(client, redirect_uri):
        raise Refused("invalid_request", "This redirect_uri is not registered for the application.")
    issuer = env.addresses.auth
    state = _single(known, "state")  # is sent back as it came, even if empty
    try:
        _check(known, first)
        wanted = ConsentRequest(
            client=client,
            redirect_uri=redirect_uri,
            scopes=asked_scopes(client, first.get("scope")),
            nonce=first.get("nonce"),
            code_challenge=code_challenge(
                first.get("code_challenge"),
                first.get("code_challenge_method"),
                required=client.public,
            ),
        )
        user_id = await _hinted(env, client, first.get("id_token_hint"))
        wishes = _prompt(first), _max_age(first), _level(first)
        return AuthorizationRequest(wanted, state, *wishes, user_id)
    except Refused as refused:
        told = {"error": refused.error, "error_description": refused.message}
        address = _address(redirect_uri, state, issuer, told)
        raise Returned(refused.error, refused.message, address) from None


def _single(parameters: Sequence[tuple[str, str]], name: str) -> str | None:
    values = [value for one, value in parameters if one == name]
    return values[0] if len(values) == 1 else None


def _check(known: Sequence[tuple[str, str]], first: Mapping[str, str]) -> None:
    if len({name for name, _ in known}) < len(known):
        raise Refused("invalid_request", "A parameter was sent more than once.")
    for name, value in first.items():
        most = MAX_STATE_LENGTH if name == "state" else MAX_LENGTH
        if len(value) > most and name != "id_token_hint":
            raise Refused("invalid_request", f"{name} is longer than {most} characters.")
    if not all(map(str.isprintable, first.values())):
        raise Refused("invalid_request", "A parameter contains a character that is not printable.")
    for name, error in (
        ("request", "request_not_supported"),
        ("request_uri", "request_uri_not_supported"),
        ("registration", "registration_not_supported"),
    ):
        if name in first:
            raise Refused(error, f"{name} is not supported.")
    if "response_type" not in first:
        raise Refused("invalid_request", "response_type must be code.")
    if first["response_type"] != "code":
        raise Refused("unsupported_response_type", "response_type must be code.")
    if first.get("response_mode", "query") != "query":
        raise Refused("invalid_request", "response_mode must be query.")


def _prompt(first: Mapping[str, str]) -> frozenset[str]:
    prompt = frozenset(first.get("prompt", "").split())
    if not prompt.issubset(PROMPTS) or ("none" in prompt and len(prompt) > 1):
        others = ", ".join(one for one in PROMPTS if one != "none")
        raise Refused("invalid_request", f"prompt must be none, or some of {others}.")
    return prompt


def _max_age(first: Mapping[str, str]) -> int | None:
    text = first.get("max_age")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Refused("invalid_request", "max_age must be a number of seconds.")
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
    subject = await env[Signer].subject_of(hint, audience=client.client_id)
    if subject is None:
        raise Refused("invalid_request", "id_token_hint must be an ID token of this client.")
    return int(subject)


def _address(uri: str, state: str | None, issuer: str, told: Mapping[str, str]) -> str:
    parameters = {**told, **({} if state is None else {"state": state}), "iss": issuer}
    join = "?" if "?" not in uri else "" if uri[-1] in "?&" else "&"
    return f"{uri}{join}{urlencode(parameters)}"
