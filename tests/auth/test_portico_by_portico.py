"""Portico is a provider like any other: people of one installation sign in at another by it."""

import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from authorizing import shown
from driving import Api, settings_for
from portico.features.access.clients import Registered
from portico.features.people.storage import Users
from portico.features.signin.storage import ProviderStore
from portico.outbound.fetching import Fetched, Fetcher
from second_factor import HERE, ORIGIN, session_in
from signing_in import AUTH, PASSWORD, client_of

APP = "https://app.example.com"
BACK = f"{APP}/dashboard/sign-in/back/portico"


class Reaching(Fetcher):
    """Reaches the other installation in this process."""

    def __init__(self, other: Api) -> None:
        super().__init__()
        self._client = other.stranger()

    async def get(self, url: str, headers: Mapping[str, str]) -> Fetched:
        answer = await self._client.get(url, headers=dict(headers))
        return Fetched(answer.status_code, answer.content)

    async def post(self, url: str, headers: Mapping[str, str], form: Mapping[str, str]) -> Fetched:
        answer = await self._client.post(url, headers=dict(headers), data=dict(form))
        return Fetched(answer.status_code, answer.content)


@pytest.fixture
async def elsewhere(tmp_path: Path) -> AsyncIterator[Api]:
    """The installation that has the accounts."""
    (tmp_path / "elsewhere").mkdir()
    async with Api(settings_for(tmp_path / "elsewhere", {})) as api:
        yield api


@pytest.fixture
async def client(elsewhere: Api) -> Registered:
    """What the other is to it."""
    return await client_of(elsewhere.live, redirect_uris=(BACK,))


@pytest.fixture
async def api(elsewhere: Api, client: Registered, tmp_path: Path) -> AsyncIterator[Api]:
    """The installation that believes it."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "portico.toml").write_text(
        f'dashboard_url = "{APP}/dashboard"\n[sign_in.portico]\nissuer = "{AUTH["live"]}"\n'
        f'client_id = "{client.client.client_id}"\nclient_secret = "{client.secret}"\n'
        "create_users = true\n"
    )
    async with Api(settings_for(tmp_path / "here", {}), fetcher=Reaching(elsewhere)) as api:
        yield api


async def test_portico_signs_in_with_portico(elsewhere: Api, api: Api) -> None:
    ada = await elsewhere.account(
        email="ada@example.com", password=PASSWORD, email_verified_at=elsewhere.clock()
    )
    there, here = elsewhere.stranger(), api.stranger()
    leaving = await here.post(
        f"{APP}/dashboard/sign-in/with/portico", data={"next": ""}, headers={"origin": APP}
    )
    found = re.search(r'<a class="button primary wide" href="(.*?)"', leaving.text)
    assert found, leaving.text
    asked = found[1].replace("&amp;", "&")
    sign_in = await there.get(asked)
    fields = {"email": ada.email, "password": PASSWORD, "next": asked.removeprefix(HERE)}
    signed_in = await there.post(f"{AUTH['live']}/sign-in", data=fields, headers=ORIGIN)
    assert sign_in.status_code == signed_in.status_code == 303
    consent = await there.get(HERE + signed_in.headers["location"])
    csrf = re.search(r'name="csrf" value="(\w+)"', consent.text)
    assert csrf, consent.text
    allowed = {"decision": "allow", "csrf": csrf[1], "scopes": shown(consent)}
    decided = await there.post(asked, data=allowed, headers=ORIGIN)
    assert decided.headers["location"].startswith(f"{BACK}?")
    done = await here.get(decided.headers["location"])
    assert session_in(done), done.text
    user = await api.live[Users].by_email(ada.email)
    assert user is not None
    assert user.name == ada.name
    (made,) = await api.live[ProviderStore].links_of(user.id)
    assert (made.issuer, made.subject) == (AUTH["live"], str(ada.id))
