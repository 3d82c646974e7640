"""Who may see a page and send its forms, whatever else they send."""

import re
from collections.abc import Awaitable, Callable
from urllib.parse import urlencode

import msgspec
import pytest

from driving import NOON, Api, InProcess
from owned import grants_of, sessions_of
from pages.visiting import DASHBOARD, ORIGIN, PASSWORD, Visitor, said, signed_in, visitor
from portico.core.audit import OPERATOR
from portico.core.errors import Unavailable
from portico.features.access.clients import Registration, register_client
from portico.features.operations.pages import SANDBOX_PAGES
from portico.features.people.accounts import give_key, suspend
from portico.features.people.storage import Users
from portico.features.signin.sessions import begin_second_step
from portico.mounts import ACCOUNT, LIVE, SHOWING
from portico.web.cookies import SECOND_STEP
from portico.web.messages import FORM
from portico.web.pages.forms import BODY_LIMIT, MAX_FIELDS
from portico.web.pages.html import FOLDERS
from portico.web.pages.responder import LOOKING, PageResponder
from portico.web.pages.search import search_page
from portico.web.pages.site import PageRoute
from portico.web.routing import Access
from signing_in import login_of

SHOWN = (*SHOWING, search_page(()))
PLACES = [
    *(("", page) for page in (*SHOWN, *LIVE, *ACCOUNT)),
    *(("/sandbox", page) for page in (*SHOWN, *SANDBOX_PAGES)),
    *(("/sandbox", page) for page in ACCOUNT if page.access is not Access.ANYONE),
]


def named(place: tuple[str, PageRoute]) -> str:
    base, page = place
    return f"{page.method} {base}{page.path}"


def chosen(method: str, *, admin: bool | None = None) -> list[tuple[str, PageRoute]]:
    """The pages of a method that are not for everybody."""
    return [
        (base, page)
        for base, page in PLACES
        if page.method == method
        and page.access is not Access.ANYONE
        and admin in (None, page.access == "admin")
    ]


def path_of(place: tuple[str, PageRoute]) -> str:
    return place[0] + place[1].path.replace("{id}", "1")


async def test_table_of_pages_has_every_mounted_page(api: Api) -> None:
    mounted = {
        (mount.prefix.removeprefix("/dashboard"), route.method, route.path)
        for mount in api.server.pipeline._secure._mounts  # noqa: SLF001 - the server's own table
        if isinstance(mount.responder, PageResponder) and mount.prefix.startswith("/dashboard")
        for route in mount.routes
    }
    tried = {(base, page.method, page.path) for base, page in PLACES}
    assert mounted == tried


async def half_signed_in(api: Api) -> Visitor:
    """An administrator whose second step is to come, with its secret in every place."""
    user = await api.account("admin", password=PASSWORD)
    one = await visitor(api)
    secret = await begin_second_step(api.live, user, OPERATOR)
    for name in (SECOND_STEP.name, "__Host-session"):
        one.client.cookies.set(name, secret)
    return one


async def suspended(api: Api) -> Visitor:
    """An administrator who was suspended since they signed in."""
    await api.account("admin")  # so that nobody is the last
    user, one = await signed_in(api, "admin")
    await suspend(api.live, user.id, OPERATOR)
    return one


async def test_every_page_and_form_of_admins_is_forbidden_to_others(api: Api) -> None:
    assert len(chosen("GET", admin=True)) > 10
    for role in ("viewer", "editor"):
        _, somebody = await signed_in(api, role)
        for place in chosen("GET", admin=True):
            assert (await somebody.get(path_of(place))).status_code == 403, named(place)
        async with api.unchanged():
            for place in chosen("POST", admin=True):
                assert (await somebody.post(path_of(place), id="1")).status_code == 403


async def test_role_lost_while_a_form_arrives_forbids_the_form(api: Api) -> None:
    user, somebody = await signed_in(api, "editor")
    await somebody.get("/products/new")
    cookies = (f"{one.name}={one.value}" for one in somebody.client.cookies.jar)
    headers = {"content-type": FORM, "origin": ORIGIN, "cookie": "; ".join(cookies)}
    lamp = {"f-name": "Lamp", "f-category": "light", "f-price": "1", "f-currency": "USD"}
    fields = {
        "csrf": somebody.csrf,
        "once": "1",
        **lamp,
        "f-stock_quantity": "1",
        "f-status": "draft",
    }
    start, rest = urlencode(fields).encode().split(b"&", 1)

    async def demote() -> None:
        async with api.live.db.transaction() as tx:
            await api.live[Users].update(tx, msgspec.structs.replace(user, role="viewer"))

    answer = await InProcess(api).exchange(
        "POST", "/dashboard/products/new", [*headers.items()], start, demote, b"&" + rest
    )
    assert answer.status_code == 403
    assert await api.live.db.all("SELECT id FROM products") == []


async def test_form_of_a_page_without_referrer_is_accepted(api: Api) -> None:
    stranger = await visitor(api)
    page = await stranger.get("/reset?token=none")
    assert page.headers["referrer-policy"] == "no-referrer"
    answer = await stranger.send(
        "/reset",
        {"token": "none", "password": PASSWORD},
        origin="null",
        sec_fetch_site="same-origin",
    )
    assert answer.status_code == 422
    assert "has expired, was used before" in said(answer)


async def test_every_page_has_security_headers_and_no_inline_code(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    for place in [*chosen("GET"), ("", PageRoute("GET", "/nothing", None))]:  # type: ignore[arg-type]
        if place[1].path.endswith("/passkey/options"):
            continue  # JSON
        answer = await admin.get(f"{path_of(place)}?id=1")
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'self'; script-src 'self';")
        assert "frame-ancestors 'none'" in policy
        assert "base-uri 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert not re.search(r"<script(?! src)|<style| style=| on\w+=|javascript:", answer.text)


async def test_user_text_is_escaped_on_every_page(api: Api) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    user, admin = await signed_in(api, "admin", name=hostile)
    await give_key(api.live, user, name=hostile, key_type="live", expires_at=None, by=OPERATOR)
    for path in ("", "/keys", f"/users/{user.id}", f"/users?search={hostile}", "/profile",
                 f"/audit?user={hostile}&action={hostile}", f"/keys?done={hostile}",
                 "/keys/revoke?id=1"):  # fmt: skip
        answer = await admin.get(path)
        assert answer.status_code == 200, path
        assert "<img src=x" not in answer.text
    refused = await admin.post("/keys/new", name=hostile * 9, type=hostile, expiry=hostile)
    assert refused.status_code == 422
    assert "<img src=x" not in refused.text


async def test_redirect_uri_adds_nothing_to_the_content_security_policy(api: Api) -> None:
    _, somebody = await signed_in(api)
    own = (await somebody.get("/keys")).headers["content-security-policy"]
    for rest in ("/back?a=b", ";script-src/back", "'unsafe-inline'/"):
        uri = f"https://app.test{rest}"
        wanted = Registration("Ledger", [uri], "read:users")
        client, _ = await register_client(api.live, None, wanted, public=False, by=OPERATOR)
        query = {"response_type": "code", "client_id": client.client_id, "redirect_uri": uri}
        answer = await somebody.client.get(f"{ORIGIN}/auth/authorize", params=query)
        assert answer.status_code == 200, answer.text
        assert f"{answer.headers['content-security-policy']}; form-action 'self'" == own


async def test_sign_in_redirects_to_no_other_site(api: Api) -> None:
    user, somebody = await signed_in(api)
    fields = {"email": user.email, "password": PASSWORD}
    for target in (
        "https://evil.test/", "//evil.test/", "/\\evil.test/", "\\\\evil.test", "///evil.test",
        "/dashboard//evil.test", "/dashboard/../v1/users", "/dashboard/%2e%2e/v1", "/elsewhere",
        "/dashboardish", "javascript:alert(1)", "/dashboard/\t//evil.test", "dashboard",
        "/dashboard/keys?a=\r\nset-cookie: a=b", "/dashboard/kéys", "",
    ):  # fmt: skip
        stranger = await visitor(api)
        posted = await stranger.send("/sign-in", {**fields, "next": target})
        looked = await somebody.client.get(f"{DASHBOARD}/sign-in", params={"next": target})
        for answer in (posted, looked):
            assert answer.status_code == 303
            assert answer.headers["location"] == "/dashboard", target


async def test_resource_of_another_account_is_not_found(api: Api) -> None:
    owner, _ = await signed_in(api, "admin")
    key, trial = [
        (
            await give_key(
                api.live, owner, name="Theirs", key_type=kind, expires_at=None, by=OPERATOR
            )
        )[0]
        for kind in ("live", "test")
    ]
    (session,) = await sessions_of(api.live, owner.id, NOON)
    await login_of(api.live, owner)
    (grant,) = await grants_of(api.live, owner.id, NOON)
    _, other = await signed_in(api, "admin")
    async with api.unchanged():
        for path, fields in (
            ("/keys/rotate", {"id": key.id}),
            ("/keys/revoke", {"id": key.id}),
            ("/sandbox/keys/revoke", {"id": trial.id}),
            ("/devices/end", {"kind": "session", "id": session.id}),
            ("/devices/end", {"kind": "login", "id": grant.id}),
            ("/devices/end", {"kind": "else", "id": session.id}),
            ("/applications/revoke", {"id": grant.id}),
            ("/keys/revoke", {"id": "0x1"}),
            ("/keys/revoke", {}),
        ):
            assert (await other.post(path, **fields)).status_code == 404, path


async def test_body_other_than_a_form_is_refused(api: Api) -> None:
    _, somebody = await signed_in(api)
    async with api.unchanged():
        for content_type, body, status in (
            ("application/json", b"{}", 415),
            (FORM, b"a=" + b"x" * BODY_LIMIT, 413),
            (FORM, b"name=%ff", 400),
            (FORM, b"name=a%00b", 400),
            (FORM, b"&".join([b"a=1"] * (MAX_FIELDS + 1)), 400),
            (FORM, b"csrf=%s&name=a&name=b" % somebody.csrf.encode(), 400),
        ):
            headers = {"content-type": content_type, "origin": ORIGIN}
            answer = await somebody.client.post(
                f"{DASHBOARD}/keys/new", content=body, headers=headers
            )
            assert answer.status_code == status, body[:40]
            assert answer.headers["content-type"] == "text/html; charset=utf-8"


async def test_page_of_an_unavailable_rate_limit_store_is_503(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, somebody = await signed_in(api)

    async def silent(*_: object) -> None:
        raise Unavailable("The store of the rate limits does not answer.")

    with monkeypatch.context() as patch:
        patch.setattr(api.live.limiter, "take_all", silent)
        answer, sent = await somebody.get(""), await somebody.send("/sign-out", {})
    assert answer.status_code == sent.status_code == 503
    assert ">Try again<" not in sent.text, "a link would send nothing"
    assert answer.headers["retry-after"] == "1"
    assert "Try again in <strong>1 second</strong>" in answer.text


async def test_internal_error_page_shows_the_request_id_alone(api: Api) -> None:
    _, somebody = await signed_in(api)
    async with api.live.db.transaction() as tx:
        await tx.script("ALTER TABLE request_hours RENAME COLUMN hour TO ours")
    answer = await somebody.get("")
    assert answer.status_code == 500
    assert answer.headers["x-request-id"] in answer.text
    assert "request_hours" not in answer.text


async def test_idle_session_leads_to_sign_in_and_back(api: Api) -> None:
    _, somebody = await signed_in(api)
    api.clock.advance(seconds=1_800)
    answer = await somebody.get("/keys?done=key-revoked")
    assert answer.status_code == 303
    assert answer.headers["location"].endswith("next=%2Fdashboard%2Fkeys%3Fdone%3Dkey-revoked")
    fetched = await somebody.get("/keys", **{"hx-request": "true"})
    assert fetched.status_code == 204
    assert fetched.headers["hx-redirect"] == "/dashboard/sign-in?next=%2Fdashboard%2Fkeys"


async def test_failed_sign_ins_are_slowed_down_on_the_page(api: Api) -> None:
    user, stranger = await api.account(password=PASSWORD), await visitor(api)
    for _ in range(11):
        answer = await stranger.send("/sign-in", {"email": user.email, "password": "Wrong-1"})
    assert answer.status_code == 429
    assert answer.headers["retry-after"]
    assert "Too many failed attempts" in said(answer)
    assert "Wrong-1" not in answer.text


def test_htmx_requests_of_templates_are_get_alone() -> None:
    """`pages.js` visits what was refused: so nothing but GET may be asked for in that way."""
    templates = [template for folder in FOLDERS for template in folder.iterdir()]
    assert len({template.name for template in templates}) == len(templates)
    for template in templates:
        verbs = set(re.findall(r"\bhx-(get|post|put|patch|delete|boost)\b", template.read_text()))
        assert verbs <= {"get"}, template.name


@pytest.mark.parametrize("coming", [visitor, half_signed_in, suspended])
async def test_every_page_and_form_leads_those_without_session_to_sign_in(
    api: Api, coming: Callable[[Api], Awaitable[Visitor]]
) -> None:
    stranger = await coming(api)
    async with api.unchanged(but="shown_once"):
        for place in (*chosen("GET"), *chosen("POST")):
            send = stranger.get if place[1].method == "GET" else stranger.post
            answer = await send(path_of(place))
            assert answer.status_code == 303, named(place)
            assert answer.headers["location"].startswith("/dashboard/sign-in?next=%2Fdashboard")


async def test_every_form_without_csrf_token_of_its_session_or_of_a_foreign_origin_is_forbidden(
    api: Api,
) -> None:
    user, admin = await signed_in(api, "admin")
    _, other = await signed_in(api, "admin")
    evil = {"origin": "https://evil.test"}
    async with api.unchanged():
        for place in chosen("POST"):
            for csrf, headers in (("", {}), (other.csrf, {}), (admin.csrf, evil)):
                answer = await admin.send(path_of(place), {"csrf": csrf, "id": "1"}, **headers)
                assert answer.status_code == 403, named(place)
            api.clock.advance(seconds=1)  # or the limit of forms in a minute is reached
        stranger, fields = await visitor(api), {"email": user.email, "password": PASSWORD}
        for headers in (
            evil,
            {"origin": "http://localhost:8443"},
            {"origin": "https://localhost:8443.evil.test"},
            {"origin": "null"},
            {"origin": "null", "sec_fetch_site": "cross-site"},
            {"origin": "", "sec_fetch_site": "same-site"},
        ):
            answer = await stranger.send("/sign-in", fields, **headers)
            assert answer.status_code == 403, headers
            assert "set-cookie" not in answer.headers


async def test_page_views_have_a_rate_limit_of_their_own_that_spares_sign_out(api: Api) -> None:
    user, somebody = await signed_in(api, plan="tiny")
    caller = await api.caller(user=user)
    api.clock.advance(seconds=60)
    for _ in range(LOOKING.per_minute):
        await somebody.get("/nothing")
    answer = await somebody.get("")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")
    assert "Too many requests; try again in 60 seconds." in answer.text
    assert (await caller.get("/users/me")).status_code == 200
    out = await somebody.post("/sign-out")
    assert out.headers["location"].endswith("/sign-in?done=signed-out")
