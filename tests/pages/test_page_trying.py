"""Trying operations from the reference: in the sandbox, as whoever is signed in, and never live."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from driving import Api, settings_for
from pages.test_page_step_up import hidden
from pages.visiting import DASHBOARD, ORIGIN, PASSWORD, Visitor, said, signed_in, visitor
from portico.domain.audit import OPERATOR
from portico.domain.users import User
from portico.pages.forms import BODY_LIMIT
from portico.services.step_up import FRESH
from portico.services.suspension import suspend

LAMP = {"name": "Lamp", "category": "lighting", "price": 24.5, "status": "active"}
SANDBOX = f"{ORIGIN}/sandbox/v1"


@pytest.fixture
def environ(request: pytest.FixtureRequest) -> dict[str, str]:
    """Either database for those that name both."""
    if "each_database" not in request.fixturenames:
        return {}
    variables: dict[str, str] = request.getfixturevalue("each_database")
    return variables


async def form_of(one: Visitor, operation: str) -> httpx.Response:
    """The page on which an operation is tried."""
    return await one.get(f"/sandbox/try?operation={operation}")


async def is_offered(stranger: httpx.AsyncClient, operation: str) -> bool:
    """Whether the reference leads to a try of an operation."""
    shown = (await stranger.get(f"{SANDBOX}/docs/{operation}")).text
    return f'class="try" href="{DASHBOARD}/sandbox/try?operation={operation}"' in shown


async def tried(one: Visitor, operation: str, **fields: Any) -> httpx.Response:
    """What comes of trying an operation."""
    await form_of(one, operation)
    return await one.send("/sandbox/try", {"csrf": one.csrf, "operation": operation, **fields})


def outcome(answer: httpx.Response) -> tuple[int, Any]:
    """The status and the body that a page shows."""
    assert answer.status_code == 200, answer.text
    status = re.search(r'<p tabindex="-1" class="outcome \w+"><b>(\d+)</b>', answer.text)
    body = re.search(r"<pre .*?><code>(.*?)</code></pre>", answer.text, re.DOTALL)
    assert status is not None
    return int(status[1]), json.loads(unescape(re.sub("<.*?>", "", body[1]))) if body else None


def headers(answer: httpx.Response) -> dict[str, str]:
    """The headers that a page shows."""
    return dict(re.findall(r"<dt>([\w-]+)</dt><dd>(.*?)</dd>", answer.text))


@asynccontextmanager
async def live_untouched(api: Api) -> AsyncIterator[None]:
    """Whatever happens inside leaves live as it was."""
    before = await api.state()
    yield
    after = await api.state()
    for name in before:
        assert name.startswith("sandbox ") or after[name] == before[name], name


async def sessions(api: Api) -> int:
    """How many sessions the sandbox has."""
    row = await api.sandbox.db.one("SELECT count(*) FROM sessions", {})
    return int(row[0]) if row else 0


@pytest.mark.usefixtures("each_database")
async def test_a_request_is_made_in_the_sandbox_by_the_accounts_mirror_user(api: Api) -> None:
    user, editor = await signed_in(api, "editor")
    page = await form_of(editor, "create_product")
    assert "&#34;Desk lamp&#34;" in page.text
    async with live_untouched(api):
        answer = await tried(editor, "create_product", body=json.dumps(LAMP))
    status, body = outcome(answer)
    assert (status, body["data"]["price"]) == (201, 24.5)
    shown = headers(answer)
    assert shown["location"] == f"{SANDBOX}/products/{body['data']['id']}"
    assert shown["x-ratelimit-remaining"] == "999999999"
    assert shown["x-request-id"] != answer.headers["x-request-id"]
    assert "set-cookie" not in shown
    mirror = await api.sandbox.users.by_account(user.id)
    assert mirror is not None
    entry, *_ = await api.sandbox.audit.page(limit=9)
    assert (entry.action, entry.user_id) == ("product.created", mirror.id)
    assert (entry.credential, entry.request_id) == ("session", shown["x-request-id"])
    assert await sessions(api) == 0
    read = await tried(editor, "read_product", **{"path.id": str(body["data"]["id"])})
    assert outcome(read)[1]["data"]["name"] == "Lamp"
    found = await tried(editor, "list_products", **{"query.search": "lamp", "query.limit": "5"})
    assert "list_products" in found.text
    assert f"{SANDBOX}/products?limit=5&amp;search=lamp" in found.text
    assert outcome(found)[1]["pagination"]["total_items"] == 1


async def test_everything_that_is_offered_can_be_sent_and_answers_as_documented(api: Api) -> None:
    user, admin = await signed_in(api, "admin")
    stranger = api.stranger()
    described = (await stranger.get(f"{SANDBOX}/openapi.json")).json()
    documented = {
        operation["operationId"]: set(operation["responses"])
        for item in described["paths"].values()
        for operation in item.values()
    }
    offered = [name for name in documented if await is_offered(stranger, name)]
    assert len(offered) == len(documented) - 3  # a stream, and what is about a session itself
    async with live_untouched(api):
        for operation in offered:
            page = await form_of(admin, operation)
            sent: dict[str, str] = dict(
                re.findall(r'<input\s+id="\S+" name="(path\S+)".*? value="(1)"', page.text)
            )
            example = re.search(r"<textarea .*?>\n(.*?)</textarea>", page.text, re.DOTALL)
            if example:
                sent["body"] = unescape(example[1])
            answer = await admin.post("/sandbox/try", operation=operation, **sent)
            assert str(outcome(answer)[0]) in documented[operation] - {"401"}, operation
    assert await api.live.users.get(user.id) is not None
    assert await sessions(api) == 0


async def test_a_viewer_is_told_what_the_api_says(api: Api) -> None:
    _, viewer = await signed_in(api, "viewer")
    answer = await tried(viewer, "create_product", body=json.dumps(LAMP))
    status, body = outcome(answer)
    assert (status, body["error"]["code"]) == (403, "PERMISSION_DENIED")
    assert f'<p class="notice bad">{body["error"]["message"]}</p>' in answer.text


@pytest.mark.parametrize("body", ["", "{", '{"name": "a"', "nonsense", '{"name": "\\ud800"}'])
async def test_a_body_that_is_no_json_is_told_and_stays_in_the_form(api: Api, body: str) -> None:
    _, editor = await signed_in(api, "editor")
    answer = await tried(editor, "create_product", body=body)
    status, told = outcome(answer)
    assert (status, told["error"]["code"]) == (400, "VALIDATION_ERROR")
    assert unescape(answer.text).count(body) >= 1
    assert '<p class="notice bad">' in answer.text


async def test_whoever_is_not_signed_in_is_told_where_to(api: Api) -> None:
    stranger = await visitor(api)
    page = await form_of(stranger, "create_product")
    assert page.status_code == 200
    assert "You are not signed in." in page.text
    assert "<form" not in page.text
    assert (
        '/dashboard/sign-in?next=/dashboard/sandbox/try%3Foperation%3Dcreate_product"' in page.text
    )
    async with api.unchanged():
        answer = await stranger.post("/sandbox/try", operation="create_product", body="{}")
    assert answer.status_code == 403
    assert "no longer signed in, and nothing was sent" in answer.text


async def test_a_session_that_ended_meanwhile_sends_nothing(api: Api) -> None:
    await api.account("admin")
    user, admin = await signed_in(api, "admin")
    await form_of(admin, "create_product")
    await suspend(api.live, user.id, OPERATOR)
    async with api.unchanged():
        answer = await admin.post("/sandbox/try", operation="create_product", body=json.dumps(LAMP))
    assert answer.status_code == 403


async def test_a_browser_that_keeps_its_cookie_back_is_asked_again(api: Api) -> None:
    stranger = await visitor(api)
    answer = await stranger.get(
        "/sandbox/try?operation=create_product", **{"sec-fetch-site": "cross-site"}
    )
    assert 'http-equiv="refresh"' in answer.text


async def sandbox_user(api: Api, role: str) -> tuple[User, Visitor]:
    """A user of the sandbox alone, with a browser that is signed in there."""
    user = await api.account(role, env=api.sandbox, password=PASSWORD)
    one = await visitor(api)
    credentials = {"email": user.email, "password": PASSWORD}
    answer = await one.client.post(f"{SANDBOX}/sessions", json=credentials)
    assert answer.status_code == 201, answer.text
    return user, one


ACCESS: dict[str, dict[str, str]] = {
    "create_api_key": {"body": json.dumps({"name": "Till <i>", "type": "test"})},
    "create_webhook": {"body": json.dumps({"url": "https://hooks.test/", "types": ["*"]})},
    "create_user": {
        "body": json.dumps({"name": "Grace", "email": "grace@example.com", "password": PASSWORD})
    },
    "change_user": {"path.id": "1", "body": json.dumps({"name": "Grace"})},
}


@pytest.mark.parametrize("operation", ACCESS)
async def test_a_session_left_open_tries_nothing_that_decides_on_access(
    api: Api, operation: str
) -> None:
    user, admin = await signed_in(api, "admin")
    await tried(admin, "change_me", body=json.dumps({"name": "Ada King"}))  # whose mirror is made
    api.clock.advance(milliseconds=FRESH)
    for harmless in ("read_me", "create_product"):
        assert outcome(await tried(admin, harmless, body=json.dumps(LAMP)))[0] in (200, 201)
    async with api.unchanged(but="challenges"):
        asked = await tried(admin, operation, **ACCESS[operation])
    assert "Confirm that it is you" in asked.text
    waiting = hidden(asked)
    assert {"csrf", "step_up", "operation", *ACCESS[operation]} == waiting.keys()
    async with api.unchanged():
        back = await admin.send("/sandbox/try", {**waiting, "step_up_cancel": "yes"})
    assert said(back) == "You cancelled, so nothing was changed."
    assert ACCESS[operation]["body"] in unescape(back.text)
    proof = {**waiting, "current_password": PASSWORD}
    assert outcome(await admin.send("/sandbox/try", proof))[0] in (200, 201)
    async with api.unchanged():
        again = await admin.send("/sandbox/try", proof)
    assert again.status_code == 409
    assert "already carried out" in said(again)
    assert outcome(await tried(admin, "read_me"))[1]["data"]["email"] == user.email


async def test_whoever_is_signed_in_to_the_sandbox_itself_tries_as_themselves(api: Api) -> None:
    user, editor = await sandbox_user(api, "editor")
    async with live_untouched(api):
        status, body = outcome(await tried(editor, "read_me"))
        assert (status, body["data"]["id"]) == (200, user.id)
        assert outcome(await tried(editor, "create_product", body=json.dumps(LAMP)))[0] == 201
    assert await sessions(api) == 1  # their own stays


async def test_what_cannot_be_tried_is_not_there(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    await form_of(admin, "read_me")
    for operation in (
        "stream_events",
        "create_session",
        "delete_session",
        "login",
        "token",
        "",
        "x",
    ):
        assert (await form_of(admin, operation)).status_code == 404, operation
        answer = await admin.post("/sandbox/try", operation=operation, body="{}")
        assert answer.status_code == 404, operation
    assert (await admin.get("/try?operation=read_me")).status_code == 404  # of the live dashboard


async def test_no_field_leads_elsewhere(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    elsewhere = {
        "base": f"{ORIGIN}/v1",
        "address": f"{ORIGIN}/v1/products",
        "path": "/v1/products",
        "host": "evil.test",
        "method": "DELETE",
        "header.Host": "evil.test",
        "header.Authorization": "Bearer x",
        "header.Cookie": "__Host-session=x",
        "query.nonsense": "1",
    }
    async with live_untouched(api):
        answer = await tried(admin, "create_product", body=json.dumps(LAMP), **elsewhere)
    assert outcome(answer)[0] == 201
    for value in ("../../../v1/users/1", "1/../../../../v1/users/1", "1?x", "%2e%2e", "1 2", "-1",
                  "0", "9" * 19, "\uff11", "", "1\r\nhost: evil.test"):  # fmt: skip
        async with api.unchanged():
            refused = await tried(admin, "delete_user", **{"path.id": value})
        assert refused.status_code == 422, value
        assert 'id="delete_user-path.id-fault"' in refused.text
        assert "Correct the fields" in said(refused)
    for value in ("a\r\nx: y", "a\nx: y", "\x7f", "ä", "\u2028", "x" * 1001):
        async with api.unchanged():
            fields = {"path.id": "1", "header.If-Match": value}
            refused = await tried(admin, "delete_user", **fields)
        assert refused.status_code == 422, value
        assert 'id="delete_user-header.If-Match-fault"' in refused.text
    query = {"query.search": "a&limit=1#?/../x\r\n", "query.category": "\u2028é"}
    assert outcome(await tried(admin, "list_products", **query))[0] == 200
    stale = {"path.id": "1", "header.If-Match": '"none"'}
    mirror = outcome(await tried(admin, "read_me"))[1]["data"]
    stale["path.id"] = str(mirror["id"])
    assert (
        outcome(await tried(admin, "change_user", body='{"name": "Ada King"}', **stale))[0] == 412
    )


async def test_no_form_of_others_is_sent(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    _, other = await signed_in(api, "admin")
    fields = {"operation": "create_product", "body": json.dumps(LAMP)}
    async with api.unchanged():
        for csrf in ({}, {"csrf": ""}, {"csrf": other.csrf}):
            assert (await admin.send("/sandbox/try", {**fields, **csrf})).status_code == 403
        for origin in ("https://evil.test", "null", "http://localhost:8443"):
            sent = {**fields, "csrf": admin.csrf}
            answer = await admin.send("/sandbox/try", sent, origin=origin)
            assert answer.status_code == 403
        got = await admin.get(f"/sandbox/try?{httpx.QueryParams(sent)}")
    assert got.status_code == 200  # the form, and nothing is sent
    assert 'class="came"' not in got.text


async def test_a_body_is_bounded(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    long = {**LAMP, "description": "d" * 9_000}
    assert outcome(await tried(editor, "create_product", body=json.dumps(long)))[0] == 201
    async with api.unchanged():
        answer = await tried(editor, "create_product", body="x" * BODY_LIMIT)
        assert answer.status_code == 413
        stranger = await visitor(api)
        assert (await stranger.post("/sandbox/try", body="x" * 17_000)).status_code == 413


async def test_of_a_long_answer_the_beginning_is_shown(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    await api.product(api.sandbox, description="d" * 100_000)
    answer = await tried(admin, "read_product", **{"path.id": "1"})
    assert 65_536 < len(answer.text) < 80_000
    assert re.search(r"3\d,\d{3} more characters are not shown", answer.text)


async def test_what_is_answered_is_text_and_never_markup(api: Api) -> None:
    _, admin = await signed_in(api, "admin", name="<i>Ada</i>")
    hostile = {**LAMP, "name": "<script>alert(1)</script>"}
    broken = '{"</textarea><script>alert(1)</script>": 1}'
    for body, status in ((json.dumps(hostile), 201), (broken, 400)):
        answer = await tried(admin, "create_product", body=body)
        assert "<script>alert" not in answer.text
        assert "<i>" not in answer.text
        assert outcome(answer)[0] == status


async def test_it_counts_against_the_sandboxs_limits(api: Api) -> None:
    user, admin = await signed_in(api, "admin", plan="tiny")
    for status in (200, 200, 200, 429):
        answer = await tried(admin, "read_me")
        assert outcome(answer)[0] == status
    assert int(headers(answer)["retry-after"]) <= 60
    caller = await api.caller(user=user)
    assert (await caller.get("/users/me")).status_code == 200  # live is another matter
    assert await sessions(api) == 0


@pytest.mark.parametrize(
    "environ",
    [
        {
            "PORTICO_DASHBOARD_URL": "https://home.test",
            "PORTICO_SANDBOX_URL": "https://try.test/v1",
        },
        {"PORTICO_TRUSTED_PROXIES": "127.0.0.0/8"},
    ],
    ids=["hosts of their own", "behind a proxy"],
)
async def test_it_works_wherever_the_sandbox_is(tmp_path: Path, environ: dict[str, str]) -> None:
    async with Api(settings_for(tmp_path, environ)) as api:
        home = environ.get("PORTICO_DASHBOARD_URL", DASHBOARD)
        user = await api.account("editor", password=PASSWORD)
        origin = home.removesuffix("/dashboard")
        browser = api.stranger(origin=origin)
        browser.headers["x-forwarded-proto"] = "https"
        browser.headers["x-forwarded-for"] = "127.0.0.7"
        credentials = {"email": user.email, "password": PASSWORD}
        assert (await browser.post(f"{home}/sign-in", data=credentials)).status_code == 303
        page = await browser.get(f"{home}/sandbox/try?operation=create_product")
        csrf = re.search(r'name="csrf" value="(\w+)"', page.text)
        assert csrf is not None
        fields = {"csrf": csrf[1], "operation": "create_product", "body": json.dumps(LAMP)}
        answer = await browser.post(f"{home}/sandbox/try", data=fields)
        assert outcome(answer)[0] == 201
