"""The overview: first steps until they are done, and one chart of requests."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from driving import Api, settings_for
from pages.visiting import rows, said, signed_in
from portico.core.audit import OPERATOR
from portico.features.operations.events import BackedUp
from portico.features.operations.storing import StoreRequests
from portico.features.people.accounts import give_key
from portico.features.signin.second_factor import Enrolment, add_authenticator
from second_factor import CODES
from second_factor import KEY as KEY_OF_APP

KEY = "Make your first request."
FACTOR = "Protect your account."
MAIL = "Connect a mail server."
CERTIFICATE = "Serve a certificate that browsers trust."
BACKUP = "Make backups."
SAMPLES = "Try it with samples."
SET_UP = {
    "PORTICO_SMTP_URL": "smtp://127.0.0.1:9",
    "PORTICO_MAIL_FROM": "portico@example.com",
}


def steps(answer: httpx.Response) -> list[str]:
    """The first steps that an overview names."""
    assert answer.status_code == 200
    return re.findall(r"<li><strong>(.*?)</strong>", answer.text)


async def test_first_steps_go_as_they_are_done(api: Api) -> None:
    user, admin = await signed_in(api, "admin")
    left = [KEY, FACTOR, MAIL, CERTIFICATE, BACKUP, SAMPLES]
    assert steps(await admin.get("")) == left
    assert steps(await admin.get("/sandbox")) == [KEY, SAMPLES]
    await give_key(api.live, user, name="K", key_type="live", expires_at=None, by=OPERATOR)
    left.remove(KEY)
    assert steps(await admin.get("")) == left
    await api.live.change.note(OPERATOR, BackedUp(1))
    left.remove(BACKUP)
    assert steps(await admin.get("")) == left
    filled = await admin.post("/sandbox/samples")
    assert filled.headers["location"] == "/dashboard/sandbox/products?done=sandbox-filled"
    page = await admin.get("/sandbox/products?done=sandbox-filled")
    assert said(page, "status") == "The sandbox is filled with samples."
    assert rows(page)
    left.remove(SAMPLES)
    assert steps(await admin.get("")) == left
    assert steps(await admin.get("/sandbox")) == [KEY]


async def test_first_steps_are_those_that_settings_and_the_account_leave(tmp_path: Path) -> None:
    settings = replace(settings_for(tmp_path, SET_UP), tls_cert=tmp_path / "cert.pem")
    async with Api(settings) as api:
        user, admin = await signed_in(api, "admin")
        enrolment = Enrolment(KEY_OF_APP, 0, "Phone", CODES)
        await api.live.change(
            OPERATOR, lambda change: add_authenticator(api.live, change, user, enrolment)
        )
        assert steps(await admin.get("")) == [KEY, BACKUP, SAMPLES]
        _, viewer = await signed_in(api)
        assert steps(await viewer.get("")) == [KEY]


async def add_product(api: Api) -> None:
    await api.product(api.sandbox)


async def add_user(api: Api) -> None:
    await api.account(env=api.sandbox)


@pytest.mark.parametrize("add", [add_product, add_user])
async def test_samples_replace_nothing(api: Api, add: Callable[[Api], Awaitable[None]]) -> None:
    _, admin = await signed_in(api, "admin")
    await admin.get("/sandbox")
    await add(api)
    assert SAMPLES not in steps(await admin.get(""))
    async with api.unchanged():
        assert (await admin.post("/sandbox/samples")).status_code == 409
        assert (await admin.post("/samples")).status_code == 404


async def test_overview_has_one_chart_with_a_scale_and_values(api: Api) -> None:
    user, somebody = await signed_in(api)
    caller = await api.caller(user=user)
    for _ in range(3):
        await caller.get("/users/999999999")
    await StoreRequests(api.live, "worker").run()
    for query, told in (("", "12:00 UTC: 3 requests, 3 failed"), ("?span=days", ": 3 requests")):
        page = await somebody.get(query)
        assert page.text.count('<svg class="chart"') == 1
        levels = page.text.partition('<ul class="levels"')[2].partition("</ul>")[0]
        assert re.findall(r"<li>(\d+)</li>", levels) == ["3", "2", "1", "0"]
        (title,) = re.findall(r"<title>([^<]*)</title></rect>", page.text)
        assert told in title
