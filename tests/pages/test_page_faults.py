"""What a page says where something is not as people expect."""

import re
from html import unescape
from urllib.parse import quote

import pytest

from driving import Api
from mail.conftest import Post
from pages.visiting import DASHBOARD, ORIGIN, PASSWORD, faults, said, signed_in, visitor
from portico.domain.audit import OPERATOR
from portico.domain.errors import Unavailable
from portico.domain.oauth import MAX_URIS
from portico.services.clients import Registration, register_client
from portico.services.recovery import give_reset


async def test_faults_of_a_field_with_too_many_values_are_bounded(api: Api) -> None:
    """Those of a form of a megabyte would take seconds, in which nobody else is answered."""
    _, admin = await signed_in(api, "admin")
    uris = "\r\n".join(f"ftp://{number}.test/" for number in range(10_000))
    await admin.get("/clients/new")
    refused = await admin.post("/clients/new", name="Shop", kind="public", redirect_uris=uris)
    said = faults(refused)["redirect_uris"]
    assert said.startswith(f"Must be 1 to {MAX_URIS} addresses; ftp://0.test/ must begin")
    assert said.count("ftp://") == MAX_URIS


async def test_reset_page_promises_mail_only_with_a_mail_server(api: Api) -> None:
    guest = await visitor(api)
    for path in ("/forgot", "/forgot/sent"):
        assert "server" in (await guest.get(path)).text
    assert "This server does not send e-mail." in (await guest.get("/forgot")).text
    api.live.has_mail_server = True
    assert "we will send you a link" in (await guest.get("/forgot")).text
    assert "Check your e-mail" in (await guest.get("/forgot/sent")).text


async def test_pages_promise_mail_only_with_a_mail_server(api: Api) -> None:
    api.live.sign_up_role = "viewer"
    _, somebody = await signed_in(api)
    pages = ("/sign-up", "/sign-up/sent", "/email", "/profile", "/profile?done=link-written")
    for path in pages:
        assert "server does not send e-mail" in (await somebody.get(path)).text, path
    asked = await somebody.post("/profile/verification")
    assert asked.headers["location"] == "/dashboard/profile?done=link-written"
    api.live.has_mail_server = True
    for path in pages[:-1]:
        assert "does not send e-mail" not in (await somebody.get(path)).text, path
    asked = await somebody.post("/profile/verification")
    assert asked.headers["location"] == "/dashboard/profile?done=verification-sent"


async def test_reset_is_promised_to_known_and_unknown_e_mails_alike(api: Api) -> None:
    user, guest = await api.account(), await visitor(api)
    for address in ("nobody@example.com", f" {user.email.upper()} "):
        asked = await guest.send("/forgot", {"email": address})
        assert asked.headers["location"] == "/dashboard/forgot/sent"


async def test_verified_e_mail_is_sent_no_further_link(api: Api) -> None:
    post = Post(api)
    _, somebody = await signed_in(api)
    await post.new()
    await somebody.get("/profile")
    assert (await somebody.post("/profile/verification")).status_code == 303
    assert (await somebody.post("/verify", token=await post.token())).status_code == 303
    asked = await somebody.post("/profile/verification")
    shown = await somebody.client.get(ORIGIN + asked.headers["location"])
    assert said(shown, "status") == "Your e-mail is already verified."
    assert await post.new() == []


async def test_invalid_link_offers_another_instead_of_its_form(api: Api) -> None:
    user = await api.account()
    guest = await visitor(api)
    for path, again in (
        ("/reset", "/forgot"), ("/verify", "/profile"), ("/new-email", "/email"),
    ):  # fmt: skip
        asked = await guest.get(f"{path}?token=none")
        sent = await guest.send(path, {"token": "none", "password": "Analytical-1844"})
        assert (asked.status_code, sent.status_code) == (410, 422)
        for answer in (asked, sent):
            assert said(answer).startswith("This link has expired, was used before")
            assert "<form" not in answer.text
            assert re.search(r'<p class="notice \w+" role="alert"[^>]* autofocus', answer.text)
            assert f'href="/dashboard{again}">Request another link' in answer.text
    given = await give_reset(api.live, user.id, OPERATOR)
    link = given.link.removeprefix(DASHBOARD)
    assert (await guest.get(link)).text.count("<form") == 1
    token = link.partition("token=")[2]
    weak = await guest.send("/reset", {"token": token, "password": "weak"})
    assert faults(weak).keys() == {"password"}
    assert "<form" in weak.text


async def test_replaced_link_refers_to_the_newer_one(api: Api) -> None:
    post = Post(api)
    user, somebody = await signed_in(api)
    await post.new()
    await somebody.get("/email")
    new_email = {"email": "new@example.com", "current_password": PASSWORD}
    for path, fields in (
        ("/forgot", {"email": user.email}), ("/profile/verification", {}), ("/email", new_email),
    ):  # fmt: skip
        links = []
        for _ in range(2):
            assert (await somebody.post(path, **fields)).status_code == 303
            links.append((await post.link()).removeprefix(DASHBOARD))
        older, latest = [await somebody.get(link) for link in links]
        assert (older.status_code, latest.status_code) == (410, 200)
        assert "was replaced by a newer one: open the latest one" in said(older)


async def test_sign_in_names_the_application_that_asked(api: Api) -> None:
    admin = await api.account("admin")
    wanted = Registration("Shop <3", ["https://shop.test/"], "")
    client, _ = await register_client(api.live, admin, wanted, public=True, by=OPERATOR)
    target = quote(f"/auth/authorize?client_id={client.client_id}", safe="")
    guest = api.stranger()
    page = (await guest.get(f"{ORIGIN}/auth/sign-in?next={target}")).text
    assert "<strong>Shop &lt;3</strong>" in page
    for other in ("%2Fauth%2Fauthorize%3Fclient_id%3Dnobody", "%2Fauth", ""):
        assert "<strong>" not in (await guest.get(f"{ORIGIN}/auth/sign-in?next={other}")).text


async def test_error_page_keeps_menu_theme_and_a_way_back(api: Api) -> None:
    _, viewer = await signed_in(api, theme="dark")
    for path, status, way in (
        ("/products/99", 404, '/dashboard/products">Back to Products'),
        ("/sandbox/products/99", 404, '/dashboard/sandbox/products">Back to Products'),
        ("/nowhere", 404, '/dashboard">Go to the dashboard'),
        ("/webhooks/1", 403, '/dashboard">Go to the dashboard'),
        ("/once?page=none", 410, '/dashboard">Go to the dashboard'),
    ):
        refused = await viewer.get(path)
        assert refused.status_code == status
        assert way in refused.text
        assert "Try again" not in refused.text
        assert 'data-theme="dark"' in refused.text
        assert 'aria-label="Dashboard"' in refused.text
    stranger = await visitor(api)
    assert 'aria-label="Dashboard"' not in (await stranger.get("/nowhere")).text


@pytest.mark.parametrize("path", ["dashboard/sign-in", "auth/sign-in", "v1/sessions"])
async def test_form_at_an_unconfigured_address_is_refused_with_the_configured_one(
    api: Api, path: str
) -> None:
    user = await api.account(password=PASSWORD)
    here = "https://127.0.0.1:8443"
    async with api.unchanged():
        refused = await api.stranger().post(
            f"{here}/{path}",
            data={"email": user.email, "password": PASSWORD},
            headers={"origin": here, "sec-fetch-site": "same-origin"},
        )
    assert refused.status_code == 403
    assert "set-cookie" not in refused.headers
    assert (
        "at an address that is not configured; open https://localhost:8443/dashboard."
        in unescape(refused.text)
    )
    if not path.startswith("v1/"):
        assert 'href="https://localhost:8443/dashboard">Go to the dashboard' in refused.text


async def test_error_page_of_an_unavailable_database_needs_no_database(api: Api) -> None:
    _, viewer = await signed_in(api)

    async def gone(*_: object) -> None:
        raise Unavailable("The database does not answer.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api.live.users, "get", gone)
        refused = await viewer.get("/products/99")
    assert refused.status_code == 503
    assert "The database does not answer." in refused.text
    assert 'aria-label="Dashboard"' not in refused.text


async def test_invisible_name_is_shown_as_its_id(api: Api) -> None:
    _, admin = await signed_in(api, "admin", name="\u200b\u200b")
    product = await api.product(name="\u2800\u2800")
    for path, row_id in (("/users", 1), ("/products", product.id)):
        rows = (await admin.get(path)).text
        assert f">Unnamed (ID {row_id})</a>" in rows
        page = await admin.get(f"{path}/{row_id}")
        assert f"<h1>Unnamed (ID {row_id})" in page.text


async def test_client_name_cannot_reorder_the_consent_page(api: Api) -> None:
    user, somebody = await signed_in(api)
    wanted = Registration("Good\u202e", ["https://evil.test/cb"], "")
    client, _ = await register_client(api.live, user, wanted, public=True, by=OPERATOR)
    asked = f"response_type=code&client_id={client.client_id}&redirect_uri=https://evil.test/cb"
    page = await somebody.client.get(
        f"{ORIGIN}/auth/authorize?{asked}&code_challenge={'x' * 43}&code_challenge_method=S256"
    )
    assert page.status_code == 200, page.text
    assert "<bdi>Good</bdi></strong> at <strong><bdi>evil.test</bdi>" in page.text
    assert "\u202e" not in page.text


@pytest.mark.parametrize(
    ("path", "whose"), [("/audit", "admins"), ("/products/new", "editors and admins")]
)
async def test_forbidden_page_names_the_roles_that_may_open_it(
    api: Api, path: str, whose: str
) -> None:
    _, viewer = await signed_in(api)
    page = await viewer.get(path)
    assert page.status_code == 403
    assert f"<p>Only {whose} can open this page.</p>" in page.text
    assert "scope" not in page.text
