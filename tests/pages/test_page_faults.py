"""What a page says where something is not as people expect."""

from html import unescape

from driving import Api
from pages.visiting import ORIGIN, PASSWORD, faults, signed_in, visitor
from portico.core.audit import OPERATOR
from portico.core.oauth import MAX_URIS
from portico.features.access.clients import Registration, register_client


async def test_faults_of_a_field_with_too_many_values_are_bounded(api: Api) -> None:
    """Those of a form of a megabyte would take seconds, in which nobody else is answered."""
    _, admin = await signed_in(api, "admin")
    uris = "\r\n".join(f"ftp://{number}.test/" for number in range(10_000))
    await admin.get("/clients/new")
    refused = await admin.post("/clients/new", name="Shop", kind="public", redirect_uris=uris)
    said = faults(refused)["redirect_uris"]
    assert said.startswith(f"Must be 1 to {MAX_URIS} addresses; ftp://0.test/ must begin")
    assert said.count("ftp://") == MAX_URIS


async def test_pages_promise_mail_only_with_a_mail_server(api: Api) -> None:
    api.live.sign_up_role = "viewer"
    _, somebody = await signed_in(api)
    pages = ("/forgot", "/sign-up", "/sign-up/sent", "/email", "/profile")
    for path in pages:
        assert "server does not send e-mail" in (await somebody.get(path)).text, path
    api.live.has_mail_server = True
    for path in pages:
        assert "does not send e-mail" not in (await somebody.get(path)).text, path


async def test_reset_is_promised_to_known_and_unknown_e_mails_alike(api: Api) -> None:
    user, guest = await api.account(), await visitor(api)
    for address in ("nobody@example.com", f" {user.email.upper()} "):
        asked = await guest.send("/forgot", {"email": address})
        assert asked.headers["location"] == "/dashboard/forgot/sent"


async def test_error_page_keeps_menu_theme_and_a_way_back(api: Api) -> None:
    _, viewer = await signed_in(api, theme="dark")
    for path, status, way in (
        ("/products/99", 404, '/dashboard/products">Back to Products'),
        ("/sandbox/products/99", 404, '/dashboard/sandbox/products">Back to Products'),
        ("/sandbox/nowhere", 404, '/dashboard/sandbox">Go to the dashboard'),
        ("/webhooks/1", 403, '/dashboard">Go to the dashboard'),
        ("/products/new", 403, "<p>Only editors and admins can open this page.</p>"),
    ):
        refused = await viewer.get(path)
        assert refused.status_code == status
        for text in (way, 'data-theme="dark"', 'aria-label="Dashboard"'):
            assert text in refused.text, path


async def test_form_at_an_unconfigured_address_is_refused_with_the_configured_one(
    api: Api,
) -> None:
    user = await api.account(password=PASSWORD)
    here = "https://127.0.0.1:8443"
    told = "at an address that is not configured; open https://localhost:8443/dashboard."
    async with api.unchanged():
        for path in ("dashboard/sign-in", "auth/sign-in", "v1/sessions"):
            refused = await api.stranger().post(
                f"{here}/{path}",
                data={"email": user.email, "password": PASSWORD},
                headers={"origin": here, "sec-fetch-site": "same-origin"},
            )
            assert refused.status_code == 403
            assert "set-cookie" not in refused.headers
            assert told in unescape(refused.text)
            way = 'href="https://localhost:8443/dashboard">Go to the dashboard'
            assert path.startswith("v1/") or way in refused.text


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
