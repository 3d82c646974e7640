"""Every link, form and file of every page leads somewhere, wherever the dashboard is."""

import re
from html import unescape
from pathlib import Path
from urllib.parse import urljoin

from driving import Api, settings_for
from pages.visiting import PASSWORD
from portico.core.audit import OPERATOR
from portico.features.access.rules import KEY_TYPES
from portico.features.people.accounts import give_key
from portico.features.people.storage import Users
from signing_in import client_of, tokens_of


async def test_every_link_form_and_file_of_a_dashboard_on_a_host_of_its_own_exists(
    tmp_path: Path,
) -> None:
    dashboard = "https://home.test"
    environ = {"PORTICO_DASHBOARD_URL": dashboard, "PORTICO_BASE_URL": "https://api.test/v1"}
    async with Api(settings_for(tmp_path, environ)) as api:
        user = await api.account("admin", password=PASSWORD)
        for key_type in KEY_TYPES:
            await give_key(
                api.live, user, name="K", key_type=key_type, expires_at=None, by=OPERATOR
            )
        mirror = await api.sandbox[Users].by_account(user.id)
        assert mirror is not None
        for env, owner in ((api.live, user), (api.sandbox, mirror)):
            await tokens_of(env, (await client_of(env)).client, owner)
        browser = api.stranger(origin=dashboard)
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
                for link in re.findall(
                    r'(?: href| src| hx-get)="((?!otpauth:)[^"#]*)"', answer.text
                )
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
