"""What decides on access to an account is told by mail, and what can be switched off stays away."""

from email.message import EmailMessage
from typing import Any

import pytest

from driving import Api
from mail.conftest import Post, link, words
from owned import set_role
from pages.visiting import PASSWORD, signed_in
from portico.core.audit import OPERATOR, Actor, Author
from portico.core.errors import AuthenticationRequired
from portico.core.times import DAY
from portico.core.users import MAILS
from portico.features.people.accounts import give_key
from portico.features.people.recovery import ask_reset, reset_password
from portico.features.people.storage import Users
from portico.features.signin.service import Attempt, prove
from second_factor import factored

pytestmark = pytest.mark.one_engine

HERE = Author(Actor(address="192.0.2.7"))


async def test_new_password_is_mailed(api: Api, post: Post) -> None:
    user, browser = await signed_in(api)
    admin = await api.caller("admin")
    await browser.get("/password")
    fields = {"current_password": PASSWORD, "password": "Chang3d-Word"}
    assert (await browser.post("/password", **fields)).status_code == 303
    (own,) = await post.new()
    assert (own["To"], own["Subject"]) == (
        user.email,
        "Your Portico account has a new password",
    )
    assert "from the IP address 127.0.0.1 on 2026-03-15 at 12:00 UTC" in words(own)
    assert link(own) == "https://localhost:8443/dashboard/forgot"
    await admin.patch(f"/users/{user.id}", json={"password": "An0therWord"})
    (by_admin,) = await post.new()
    assert "by an administrator on 2026-03-15" in words(by_admin)
    assert admin.user.name not in words(by_admin)
    assert "127.0.0.1" not in words(by_admin)
    await ask_reset(api.live, user.email, HERE)
    await reset_password(api.live, await post.token(), "Y3tAnother", HERE)
    (by_link,) = await post.new()
    assert "from the IP address 192.0.2.7" in words(by_link)


async def test_fifth_wrong_code_in_a_row_is_always_mailed(api: Api, post: Post) -> None:
    user = await factored(api, password=PASSWORD, notifications=False)
    await post.new()

    async def guess(times: int, password: str = PASSWORD) -> list[EmailMessage]:
        for _ in range(times):
            with pytest.raises(AuthenticationRequired):
                await prove(api.live, Attempt(user.email, password, HERE, "000000"))
        return await post.new()

    assert await guess(5, "Wrong-passw0rd") == []
    assert await guess(4) == []
    (told,) = await guess(1)
    assert (told["To"], told["Subject"]) == (
        user.email,
        "Wrong codes were entered for your Portico account",
    )
    assert "5 wrong codes in a row" in words(told)
    assert "from the IP address 192.0.2.7 on 2026-03-15 at 12:00 UTC" in words(told)
    assert link(told) == "https://localhost:8443/dashboard/forgot"
    api.clock.advance(days=1)
    assert await guess(4) == []


async def test_new_role_is_mailed_without_its_admin(api: Api, post: Post) -> None:
    admin, user = await api.caller("admin"), await api.account("viewer")
    await admin.patch(f"/users/{user.id}", json={"role": "editor"})
    (message,) = await post.new()
    assert (message["To"], message["Subject"]) == (
        user.email,
        "Your Portico account has a new role",
    )
    assert "is now editor; it was viewer" in words(message)
    assert "by an administrator on 2026-03-15 at 12:00 UTC" in words(message)
    for named in (admin.user.name, admin.user.email, "127.0.0.1"):
        assert named not in words(message)
    await set_role(api.live, user.email, "viewer", OPERATOR)
    assert len(await post.new()) == 1
    await set_role(api.live, user.email, "viewer", OPERATOR)
    assert await post.new() == []


@pytest.mark.parametrize("key_type", ["live", "test"])
async def test_new_key_is_mailed_to_its_owner_by_its_hint(
    api: Api, post: Post, key_type: Any
) -> None:
    user, admin = await api.account(), await api.caller("admin")
    by = HERE.named(user_id=user.id)
    key, secret = await give_key(
        api.live, user, name="Für <b>", key_type=key_type, expires_at=None, by=by
    )
    (message,) = await post.new()
    assert (message["To"], message["Subject"]) == (
        user.email,
        "Your Portico account has a new API key",
    )
    assert f"Für <b> ({key.hint}) was created" in words(message)
    assert "from the IP address 192.0.2.7 on" in words(message)
    assert secret not in message.as_string()
    place = "dashboard" if key_type == "live" else "dashboard/sandbox"
    assert link(message) == f"https://localhost:8443/{place}/keys"
    html = message.get_body(["html"])
    assert html is not None
    assert "Für &lt;b&gt;" in html.get_content()
    body = {"name": "CI", "type": "live", "user_id": user.id}
    assert (await admin.post("/api-keys", json=body)).status_code == 201
    (by_admin,) = await post.new()
    assert by_admin["To"] == user.email
    assert "by an administrator" in words(by_admin)


async def test_mails_switched_off_on_the_profile_are_not_sent(api: Api, post: Post) -> None:
    user, browser = await signed_in(api)
    caller = await api.caller(user=user)
    page = (await browser.get("/profile")).text
    assert page.count('name="mails" value') == page.count(" checked") == len(MAILS)
    fields = {"name": user.name, "language": "en", "theme": "system", "avatar_url": ""}

    async def told() -> list[str]:
        now = await api.live[Users].get(user.id)
        assert now is not None
        other = "editor" if now.role == "viewer" else "viewer"
        await set_role(api.live, user.email, other, OPERATOR)
        await give_key(api.live, user, name="k", key_type="live", expires_at=None, by=OPERATOR)
        return sorted(message["Subject"].rpartition(" ")[2] for message in await post.new())

    async def choose(*mails: str) -> None:
        assert (await browser.saved("/profile", **fields, mails=list(mails))).status_code == 303
        await post.new()

    async def switch(*, on: bool) -> None:
        await caller.patch("/users/me", json={"preferences": {"notifications": on}})
        await post.new()

    assert await told() == ["key", "role"]
    await choose("sign-ins", "roles")
    assert (await browser.get("/profile")).text.count(" checked") == 2
    assert await told() == ["role"]
    await switch(on=False)
    assert await told() == []
    await switch(on=True)
    assert await told() == ["role"], "as it was chosen"
    await choose()
    me = (await caller.get("/users/me")).json()["data"]
    assert me["preferences"]["notifications"] is False
    assert await told() == []
    admin = await api.caller("admin")
    await admin.patch(f"/users/{user.id}", json={"password": "An0therWord"})
    await admin.patch(f"/users/{user.id}", json={"email": "new@example.com"})
    assert len(await post.new()) == 3, "which nobody can switch off"


async def test_switching_mails_off_is_always_mailed(api: Api, post: Post) -> None:
    user, browser = await signed_in(api)
    admin, own = await api.caller("admin"), await api.caller(user=user)
    await browser.get("/profile")
    fields = {"name": user.name, "language": "en", "theme": "system", "avatar_url": ""}

    async def switched(*, on: bool, by_admin: bool = False) -> list[EmailMessage]:
        caller, path = (admin, f"/users/{user.id}") if by_admin else (own, "/users/me")
        answer = await caller.patch(path, json={"preferences": {"notifications": on}})
        assert answer.status_code == 200
        return await post.new()

    async def chosen(*mails: str) -> list[EmailMessage]:
        assert (await browser.saved("/profile", **fields, mails=list(mails))).status_code == 303
        return await post.new()

    for messages, where in (
        (await switched(on=False), "from the IP address"),
        (await switched(on=False), None),
        (await switched(on=True), None),
        (await switched(on=False, by_admin=True), "by an administrator"),
        (await switched(on=True), None),
        (await chosen("keys", "roles"), "from the IP address"),
        (await chosen("keys", "roles", "sign-ins"), None),
        (await chosen("roles", "expiring-keys"), "from the IP address"),
        (await chosen(), "from the IP address"),
        (await switched(on=True), None),
    ):
        assert len(messages) == (where is not None)
        for message in messages:
            assert message["To"] == user.email
            assert message["Subject"] == "E-mails about your Portico account were switched off"
            assert f"were switched off {where}" in words(message)
            assert link(message) == "https://localhost:8443/dashboard/profile"


async def test_rotated_key_is_mailed_with_the_end_of_the_former(api: Api, post: Post) -> None:
    caller = await api.caller("viewer", expires_at=api.clock() + 30 * DAY)
    key = (await caller.post("/api-keys/rotate")).json()["data"]["key"]
    (message,) = await post.new()
    assert message["Subject"] == "An API key of your Portico account was rotated"
    assert "works until 2026-03-16 at 12:00 UTC" in words(message)
    assert key not in message.as_string()


async def test_name_adds_no_paragraph_to_a_mail_and_reorders_none(api: Api, post: Post) -> None:
    user, admin = await api.account(), await api.caller("admin")
    parts = ("ends.", "\u2067Keep your account:\u202e", "https://evil.example/", "The")
    for end in ("\r\n\r\n", "\u2029", "\v\f"):
        body = {"name": end.join(parts), "type": "live", "user_id": user.id}
        assert (await admin.post("/api-keys", json=body)).status_code == 201
        (message,) = await post.new()
        assert "ends. Keep your account: https://evil.example/ The (" in words(message)
        assert link(message) == "https://localhost:8443/dashboard/keys", "and no other"
