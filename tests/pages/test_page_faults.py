"""What a page says where something is not as people expect."""

from urllib.parse import quote

from driving import Api
from pages.visiting import ORIGIN, faults, signed_in, visitor
from portico.domain.audit import OPERATOR
from portico.services.clients import Registration, register_client


async def test_every_bad_value_of_a_field_is_named_as_it_was_typed(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    uris = "https://one.test/#x\r\nhttps://two.test/\r\nftp://three.test/"
    await admin.get("/clients/new")
    refused = await admin.post("/clients/new", name="Shop", kind="public", redirect_uris=uris)
    said = faults(refused)["redirect_uris"]
    assert said.startswith("https://one.test/#x must have no fragment")
    assert "; ftp://three.test/ must begin with https://" in said


async def test_whoever_forgot_a_password_is_promised_mail_where_there_is_some(api: Api) -> None:
    guest = await visitor(api)
    for path in ("/forgot", "/forgot/sent"):
        assert "server" in (await guest.get(path)).text
    assert "This server sends no mail." in (await guest.get("/forgot")).text
    api.live.has_mail_server = True
    assert "We send you a link" in (await guest.get("/forgot")).text
    assert "Look into your mail" in (await guest.get("/forgot/sent")).text


async def test_signing_in_for_an_application_names_it(api: Api) -> None:
    admin = await api.account("admin")
    wanted = Registration("Shop <3", ["https://shop.test/"], "")
    client, _ = await register_client(api.live, admin, wanted, public=True, by=OPERATOR)
    target = quote(f"/auth/authorize?client_id={client.client_id}", safe="")
    guest = api.stranger()
    page = (await guest.get(f"{ORIGIN}/auth/sign-in?next={target}")).text
    assert "<strong>Shop &lt;3</strong>" in page
    for other in ("%2Fauth%2Fauthorize%3Fclient_id%3Dnobody", "%2Fauth", ""):
        assert "<strong>" not in (await guest.get(f"{ORIGIN}/auth/sign-in?next={other}")).text
