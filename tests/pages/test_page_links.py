"""Every link, form and file of every page leads somewhere, wherever the dashboard is."""

import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest

from driving import Api, settings_for
from pages.visiting import PASSWORD
from portico.domain.api_keys import KEY_TYPES
from portico.domain.audit import OPERATOR
from portico.domain.proofs import BY_PASSWORD, Proof
from portico.domain.users import User
from portico.services.accounts import give_key
from portico.services.clients import Registration, register_client
from servers import PostgresServer

BESIDE = "https://localhost:8443/dashboard"
ALONE = {"PORTICO_DASHBOARD_URL": "https://home.test", "PORTICO_BASE_URL": "https://api.test/v1"}


@pytest.fixture(params=["beside the rest", "on a host of its own", "on PostgreSQL"])
async def placed(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Api, str]]:
    """The application, and where its dashboard is."""
    environ, dashboard = {}, BESIDE
    if request.param == "on a host of its own":
        environ, dashboard = ALONE, ALONE["PORTICO_DASHBOARD_URL"]
    elif request.param == "on PostgreSQL":
        server: PostgresServer = request.getfixturevalue("postgres")
        environ = {"PORTICO_DATABASE_URL": server.fresh_database()}
    async with Api(settings_for(tmp_path, environ)) as api:
        yield api, dashboard


async def inhabit(api: Api) -> User:
    """An administrator with keys, clients, applications and a login in both environments."""
    user = await api.account("admin", password=PASSWORD)
    for key_type in KEY_TYPES:
        await give_key(api.live, user, name="Key", key_type=key_type, expires_at=None, by=OPERATOR)
    mirror = await api.sandbox.users.by_account(user.id)
    assert mirror is not None
    for env, owner in ((api.live, user), (api.sandbox, mirror)):
        wanted = Registration("Ledger", ["https://ledger.test/"], "read:users")
        client = (await register_client(env, None, wanted, public=False, by=OPERATOR)).client
        async with env.db.transaction() as tx:
            for grantee in (client.id, None):
                await env.grants.insert(
                    tx,
                    user_id=owner.id,
                    client_row_id=grantee,
                    scopes=frozenset({"openid"}),
                    address="",
                    user_agent="",
                    proof=Proof(BY_PASSWORD, api.clock()),
                    now=api.clock(),
                    expires_at=api.clock() + 1,
                )
    return user


async def test_every_link_form_and_file_of_the_dashboard_exists(placed: tuple[Api, str]) -> None:
    api, dashboard = placed
    user = await inhabit(api)
    parts = urlsplit(dashboard)
    browser = api.stranger(origin=f"{parts.scheme}://{parts.netloc}")
    credentials = {"email": user.email, "password": PASSWORD}
    assert (await browser.post(f"{dashboard}/sign-in", data=credentials)).status_code == 303
    seen: set[str] = set()
    forms: set[str] = set()
    waiting = [dashboard, f"{dashboard}/users?search=%00", f"{dashboard}/audit?action=%00"]
    while waiting:
        address = waiting.pop()
        answer = await browser.get(address)
        assert answer.status_code == 200, address
        # The reference is linked to, and has tests of its own.
        if "text/html" not in answer.headers["content-type"] or "/v1/" in address:
            continue
        links = {
            urljoin(address, unescape(link))
            for link in re.findall(r'(?: href| src| hx-get)="((?!otpauth:)[^"#]*)"', answer.text)
        }
        waiting += links - seen
        seen |= links
        forms |= {
            urljoin(address, unescape(form))
            for form in re.findall(r'method="post" action="([^"]*)"', answer.text)
        }
    for form in forms:
        assert (await browser.post(form, data={"csrf": "none"})).status_code == 403, form
    assert len(seen) > 40
    assert len(forms) > 20
