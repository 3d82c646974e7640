"""What admins do with accounts on pages, and what they may not."""

import pytest

from driving import Api
from pages.visiting import PASSWORD, faults, said, signed_in, visitor
from portico.domain.audit import OPERATOR
from portico.services.suspension import suspend


async def test_an_admin_suspends_and_resumes_a_user(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    user, theirs = await signed_in(api)
    asked = await admin.get(f"/users/suspend?id={user.id}")
    assert "Suspend Person" in asked.text
    done = await admin.post("/users/suspend", id=user.id)
    assert done.headers["location"] == f"/dashboard/users/{user.id}?done=user-suspended"
    assert (await theirs.get("/keys")).status_code == 303
    page = await admin.get(f"/users/{user.id}")
    assert "Suspended" in page.text
    assert "Suspended" in (await admin.get("/users")).text
    assert "/users/resume?id=" in page.text
    assert (await admin.get(f"/users/resume?id={user.id}")).status_code == 200
    done = await admin.post("/users/resume", id=user.id)
    assert done.headers["location"].endswith("done=user-resumed")
    page = await admin.get(f"/users/{user.id}")
    assert "/users/resume?id=" not in page.text
    assert "/users/suspend?id=" in page.text


async def test_nobody_suspends_themselves_on_a_page(api: Api) -> None:
    user, admin = await signed_in(api, "admin")
    await signed_in(api, "admin")
    assert "/users/suspend" not in (await admin.get(f"/users/{user.id}")).text
    async with api.unchanged():
        assert (await admin.post("/users/suspend", id=user.id)).status_code == 403


async def test_who_is_suspended_learns_it_where_they_sign_in(api: Api) -> None:
    user, theirs = await signed_in(api)
    await suspend(api.live, user.id, OPERATOR)
    fields = {"email": user.email, "password": "Analytical-1843"}
    answer = await theirs.send("/sign-in", fields)
    assert answer.status_code == 422
    assert "suspended" in said(answer)


@pytest.mark.parametrize("password", ["Password1", "Hello-Lovelace-1"])
async def test_nobody_changes_to_a_password_that_is_easy_to_guess(api: Api, password: str) -> None:
    _, somebody = await signed_in(api, name="Ada Lovelace")
    async with api.unchanged():
        fields = {"current_password": PASSWORD, "password": password}
        answer = await somebody.post("/password", **fields)
    assert answer.status_code == 422
    assert "guessed first" in faults(answer)["password"]


async def test_nobody_resets_to_a_password_that_is_easy_to_guess(api: Api) -> None:
    user = await api.account()
    stranger = await visitor(api)
    await stranger.send("/forgot", {"email": user.email})
    await api.portico.mail_queue.close()
    (mail,) = (api.settings.data / "log").glob("*.eml")
    token = mail.read_text().partition("?token=")[2][:43]
    for password, status in (("Password1", 422), ("Hello-Person-1", 422), ("Hell0-World", 303)):
        answer = await stranger.send("/reset", {"token": token, "password": password})
        assert answer.status_code == status, password
        assert status == 303 or "guessed first" in faults(answer)["password"]
