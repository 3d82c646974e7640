"""A new password, and the secrets of OAuth clients, by their pages."""

import re

from driving import Api, refused
from pages.visiting import PASSWORD, faults, signed_in
from signing_in import Visitor, client_of, named, session_of


async def test_new_password_ends_all_sessions_but_its_own(api: Api) -> None:
    user, somebody = await signed_in(api)
    elsewhere = await session_of(api.live, user)
    fields = {"current_password": "Wrong-1234", "password": "Right-12345"}
    async with api.unchanged(but="audit"):
        answer = await somebody.post("/password", **fields)
    assert faults(answer)["current_password"] == "This is not the current password."
    assert (await Visitor(api).me(cookie=elsewhere)).status_code == 200
    answer = await somebody.post("/password", **fields | {"current_password": PASSWORD})
    assert answer.headers["location"].endswith("done=password-changed")
    refused(await Visitor(api).me(cookie=elsewhere), 401)
    assert (await somebody.get("/password")).status_code == 200


async def test_client_is_renewed_and_deleted_on_its_page(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    shop = await client_of(api.live)

    async def is_known(secret: str) -> bool:
        form = {**named(shop), "client_secret": secret, "token": "none"}
        return (await Visitor(api).form("introspect", form)).status_code == 200

    await admin.get(f"/clients/{shop.client.id}")
    page = await admin.made("/clients/secret", id=shop.client.id)
    (renewed,) = re.findall(r'<code id="secret">(ocs_\S+?)</code>', page.text)
    assert await is_known(renewed)
    assert not await is_known(shop.secret or "")
    answer = await admin.post("/clients/delete", id=shop.client.id)
    assert answer.headers["location"] == "/dashboard/clients?done=client-deleted"
    assert not await is_known(renewed)
