"""Signing in by a provider that has OAuth 2.0 without OpenID Connect, as GitHub does."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest
from aiohttp import web

from driving import Api, settings_for
from openid_provider import Traveller, answering_at
from portico.core.oauth import challenge_of
from portico.core.users import User
from portico.features.people.storage import Users
from portico.features.signin.storage import ProviderStore
from second_factor import DASHBOARD
from signing_in import PASSWORD

pytestmark = pytest.mark.one_engine

SECRET = "a:secret/with+all of it"


class GitHub:
    """Answers as GitHub's pages and API do."""

    def __init__(self) -> None:
        self.address = ""
        self.user: dict[str, Any] = {"id": 583231, "login": "ada", "name": "Ada", "email": None}
        self.emails: Any = [
            {"email": "old@example.net", "primary": False, "verified": True, "visibility": None},
            {
                "email": "ada@example.com",
                "primary": True,
                "verified": True,
                "visibility": "private",
            },
            {"email": "ada@corp.example", "primary": False, "verified": False, "visibility": None},
        ]
        self.token: dict[str, Any] = {"access_token": "gho_x", "token_type": "bearer", "scope": ""}
        self.statuses: dict[str, int] = {}
        self._codes: dict[str, dict[str, str]] = {}

    def visit(self, address: str, **more: str) -> str:
        """Signs in as a browser does; returns the address that the browser is redirected to."""
        assert address.startswith(f"{self.address}/login/oauth/authorize?")
        asked = dict(parse_qsl(urlsplit(address).query))
        assert asked["scope"] == "read:user user:email"
        code = f"code-{len(self._codes)}"
        self._codes[code] = asked
        sent = urlencode({"code": code, "state": asked["state"], **more})
        return f"{asked['redirect_uri']}?{sent}"

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Answers one request of Portico."""
        assert request.headers["accept"] == "application/json"
        assert request.headers["user-agent"] == "Portico"
        if request.path in self.statuses:
            return web.json_response({"message": "no"}, status=self.statuses[request.path])
        if request.path == "/login/oauth/access_token":
            form = {name: one[0] for name, one in parse_qs(await request.text()).items()}
            asked = self._codes.pop(form["code"], {})
            assert (form["client_id"], form["client_secret"]) == ("Ov23", SECRET)
            assert form["redirect_uri"] == asked["redirect_uri"]
            assert challenge_of(form["code_verifier"]) == asked["code_challenge"]
            return web.json_response(self.token)
        assert request.headers["authorization"] == "Bearer gho_x"
        return web.json_response({"/user": self.user, "/user/emails": self.emails}[request.path])


@pytest.fixture
async def github() -> AsyncIterator[GitHub]:
    """A server at which Ada is signed in."""
    github = GitHub()
    async with answering_at(github.answer) as github.address:
        yield github


@pytest.fixture
def table() -> str:
    """More settings of the provider."""
    return ""


@pytest.fixture
async def api(
    environ: dict[str, str], tmp_path: Path, github: GitHub, table: str
) -> AsyncIterator[Api]:
    """The application, where people may sign in by GitHub."""
    at = github.address
    (tmp_path / "portico.toml").write_text(
        f'[sign_in.github]\npreset = "github"\nclient_id = "Ov23"\nclient_secret = "{SECRET}"\n'
        f'authorization_endpoint = "{at}/login/oauth/authorize"\n'
        f'token_endpoint = "{at}/login/oauth/access_token"\n'
        f'user_endpoint = "{at}/user"\n'
        + ("" if "emails_endpoint" in table else f'emails_endpoint = "{at}/user/emails"\n')
        + table
    )
    async with Api(settings_for(tmp_path, environ)) as api:
        yield api


def somebody_at(api: Api, github: GitHub) -> Traveller:
    """Somebody with a browser, and GitHub."""
    return Traveller(api, github, name="github")


async def is_linked(api: Api, user: User, subject: str = "583231") -> bool:
    found = await api.live[ProviderStore].link("https://github.com", subject)
    return found is not None and found.user_id == user.id


async def test_account_is_linked_once_by_number_and_signs_in_by_it_from_then_on(
    api: Api, github: GitHub
) -> None:
    ada = await api.account(email="ada@example.com", password=PASSWORD)
    somebody = somebody_at(api, github)
    back = await somebody.arrive()
    assert back.headers["location"].startswith("/dashboard/sign-in?"), "the e-mail alone opens none"
    entered = await somebody.sign_in(ada)
    assert urlsplit(entered.headers["location"]).path == "/dashboard/sign-in/link"
    await somebody.decide("link")
    assert await is_linked(api, ada)

    github.user |= {"login": "renamed"}
    github.emails = []
    again = somebody_at(api, github)
    assert (await again.arrive()).headers["location"] == "/dashboard"
    assert (await again.browser.get(f"{DASHBOARD}/security")).status_code == 200
    github.user |= {"id": 1, "login": "ada"}
    stranger = somebody_at(api, github)
    assert "did not give a verified e-mail" in (await stranger.arrive()).text, (
        "the name is no proof"
    )


DOMAINS = 'create_users = true\ndomains = ["corp.example"]\n'
IN_USER = 'create_users = true\nemails_endpoint = ""\n'
MAKES = "create_users = true\n"
TWO = [
    {"email": "ada@example.com", "primary": True, "verified": True},
    {"email": "ada@corp.example", "primary": False, "verified": True},
]


@pytest.mark.parametrize(
    ("table", "user", "emails", "made"),
    [
        (MAKES, {}, None, "ada@example.com"),
        (MAKES, {}, TWO, "ada@example.com"),
        (DOMAINS, {}, TWO, "ada@corp.example"),
        (DOMAINS, {}, None, None),
        (MAKES, {}, [TWO[0] | {"verified": False}], None),
        (MAKES, {}, [TWO[0] | {"verified": "true"}], None),
        (MAKES, {"email": "public@example.com"}, [], None),
        (MAKES, {}, [{"email": "no address", "verified": True}, {"email": 1, "verified": 1}], None),
        (IN_USER, {"email": "own@example.com", "verified": True}, None, "own@example.com"),
        (IN_USER, {"email": "own@example.com", "verified": False}, None, None),
        (IN_USER, {"email": "own@example.com"}, None, None),
    ],
)
async def test_email_counts_only_if_it_is_verified_and_of_the_domains(
    api: Api, github: GitHub, user: dict[str, Any], emails: Any, made: str | None
) -> None:
    github.user |= user
    github.emails = github.emails if emails is None else emails
    somebody = somebody_at(api, github)
    if made is None:
        async with api.unchanged(but="audit"):
            answer = await somebody.arrive()
        assert answer.status_code != 303, answer.headers
        return
    assert (await somebody.arrive()).headers["location"] == "/dashboard"
    found = await api.live[Users].by_email(made)
    assert found is not None
    assert found.email_verified_at is not None
    assert await is_linked(api, found)


WRONG: list[tuple[dict[str, Any], int]] = [
    ({"token": {"error": "bad_verification_code"}}, 403),
    ({"token": {"access_token": "x\ny"}}, 403),
    ({"user": {"login": "ada"}}, 403),
    ({"user": {"id": True}}, 403),
    ({"user": {"id": None}}, 403),
    ({"user": []}, 403),
    ({"emails": {"email": "ada@example.com", "verified": True}}, 403),
    ({"statuses": {"/user/emails": 404}}, 403),
    ({"statuses": {"/login/oauth/access_token": 503}}, 503),
]


@pytest.mark.parametrize("table", [MAKES])
async def test_answer_that_proves_nothing_signs_nobody_in(api: Api, github: GitHub) -> None:
    honest = vars(github).copy()
    for wrong, status in WRONG:
        vars(github).update(honest | wrong)
        async with api.unchanged(but="audit"):
            answer = await somebody_at(api, github).arrive()
        assert answer.status_code == status, wrong


async def test_state_of_another_visit_signs_nobody_in(api: Api, github: GitHub) -> None:
    answer = await somebody_at(api, github).arrive(state="of another")
    assert answer.status_code == 403


async def test_it_is_not_asked_for_what_it_cannot_prove(api: Api, github: GitHub) -> None:
    somebody = somebody_at(api, github)
    asked = dict(parse_qsl(urlsplit(await somebody.leave(again="yes")).query))
    assert asked.keys().isdisjoint({"prompt", "max_age", "nonce"})
