"""The pages by which people get an account."""

import re
from typing import Any

import pytest

from driving import Api
from mail.conftest import Post
from owned import sessions_of
from pages.visiting import DASHBOARD, ORIGIN, PASSWORD, faults, said, signed_in, visitor
from portico.domain.audit import OPERATOR
from portico.domain.errors import Conflict, NotFound
from portico.domain.invitations import Invitation
from portico.services.invitations import invite, renew, revoke
from portico.services.recovery import ask_new_email, ask_reset, ask_verification, give_reset

FORM = {"email": "grace@example.com", "name": "Grace", "role": "editor", "plan": "pro"}


async def test_invitation_makes_an_account_once(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    assert "No one is invited yet" in (await admin.get("/users/invitations")).text
    page = await admin.made("/users/invitations", **FORM)
    token = page.text.partition("/invitation?token=")[2][:43]
    assert "grace@example.com" in (await admin.get("/users/invitations")).text
    guest = await visitor(api)
    shown = await guest.get(f"/invitation?token={token}")
    assert shown.status_code == 200
    assert shown.headers["referrer-policy"] == "no-referrer"
    for text in ("grace@example.com", "editor", 'value="Grace"'):
        assert text in shown.text
    fields = {"token": token, "name": "Grace Hopper", "password": "Hopper-1906"}
    refused = await guest.send("/invitation", fields)
    assert refused.status_code == 422
    assert "guessed first" in faults(refused)["password"]
    done = await guest.send(
        "/invitation", {**fields, "password": "Hell0-World"}, accept_language="de-AT,de;q=0.9"
    )
    assert done.headers["location"] == "/dashboard/sign-in?done=account-made"
    made = await api.live.users.by_email("grace@example.com")
    assert made is not None
    assert made.language == "de-AT", "that of the browser"
    again = await guest.send("/invitation", {**fields, "password": "Hell0-World"})
    assert again.status_code == 422
    assert "was used" in said(again)
    assert (await guest.get(f"/invitation?token={token}")).status_code == 410
    assert "No one is invited yet" in (await admin.get("/users/invitations")).text


KEEPS = r'<input class="hidden" type="email" value="([^"]*)" autocomplete="username"[^>]* readonly>'
"""The field by which a program that keeps passwords knows whose it is."""


async def test_link_page_names_its_e_mail(api: Api) -> None:
    guest, post, new = await visitor(api), Post(api), "new@example.com"
    ada = await api.account(email="ada@example.com", password=PASSWORD)
    for path, address, asking in (
        ("/reset", ada.email, ask_reset(api.live, ada.email, OPERATOR)),
        ("/verify", ada.email, ask_verification(api.live, ada, OPERATOR)),
        ("/new-email", new, ask_new_email(api.live, ada, new, PASSWORD, OPERATOR)),
    ):
        await asking
        page = await guest.get(f"{path}?token={await post.token()}")
        assert f"<strong>{address}</strong>" in page.text.replace("<wbr>", ""), path


async def test_password_forms_name_the_account_for_password_managers(api: Api) -> None:
    _, admin = await signed_in(api, "admin", email="charles@example.com")
    ada = await api.account(email="ada@example.com", password=PASSWORD)
    reset = (await give_reset(api.live, ada.id, OPERATOR)).link
    page = await admin.made("/users/invitations", **FORM)
    invited = page.text.partition("/invitation?token=")[2][:43]
    for path, address in (
        (f"/reset?token={reset.partition('token=')[2]}", ada.email),
        (f"/invitation?token={invited}", FORM["email"]),
        ("/password", "charles@example.com"),
        ("/email", "charles@example.com"),
    ):
        assert re.findall(KEEPS, (await admin.get(path)).text) == [address], path
    for path in ("/users/new", f"/users/{ada.id}", "/users/invitations"):
        fields = re.findall(r'<input id="(?:name|email)"[^>]*>', (await admin.get(path)).text)
        assert [' autocomplete="off"' in field for field in fields] == [True, True], path


async def test_link_used_while_another_account_is_signed_in_keeps_that_session(
    api: Api,
) -> None:
    other, browser = await signed_in(api, "admin", name="Charles", email="charles@example.com")
    page = await browser.made("/users/invitations", **FORM)
    forms = {"/invitation": page.text.partition("/invitation?token=")[2][:43]}
    ada = await api.account(email="ada@example.com", password=PASSWORD)
    given = await give_reset(api.live, ada.id, OPERATOR)
    forms["/reset"] = given.link.partition("token=")[2]
    told = {"/invitation": "Your account is ready.", "/reset": "Your password was changed."}
    for path, email in (("/invitation", FORM["email"]), ("/reset", ada.email)):
        fields = {"token": forms[path], "name": "Grace Hopper", "password": "Hell0-World"}
        done = await browser.send(path, fields)
        shown = await browser.client.get(ORIGIN + done.headers["location"])
        assert shown.status_code == 200, shown.headers
        assert told[path] in said(shown, "status")
        assert f"You are signed in as {other.email}." in shown.text
        assert '<a href="/dashboard">Continue as Charles</a>' in shown.text
        assert other.email in (await browser.get("/profile")).text, "nobody else so far"

        entered = await browser.send("/sign-in", {"email": email, "password": "Hell0-World"})
        assert entered.status_code == 303, entered.text
        assert email in (await browser.get("/profile")).text
        assert await sessions_of(api.live, other.id, api.clock()) == []
        await browser.send("/sign-in", {"email": other.email, "password": PASSWORD})


async def test_required_sign_in_offers_no_way_around(api: Api) -> None:
    """They would be led in a circle."""
    user, browser = await signed_in(api)
    for query in ("again=yes", "again=yes&done=password-reset"):
        asked = await browser.client.get(f"{DASHBOARD}/sign-in?{query}")
        assert (asked.status_code, "Continue as" in asked.text) == (200, False)
    refused = await browser.send("/sign-in", {"email": user.email, "password": "Wrong1-password"})
    assert (refused.status_code, "Continue as" in refused.text) == (422, False)


async def test_link_for_a_taken_e_mail_refers_to_sign_in(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    page = await admin.made("/users/invitations", **FORM)
    _, somebody = await signed_in(api)
    await somebody.get("/email")
    await somebody.post("/email", email=FORM["email"], current_password=PASSWORD)
    await api.mailed()
    (mail,) = (api.settings.data / "log").glob("*.eml")
    tokens = {
        "/invitation": page.text.partition("/invitation?token=")[2][:43],
        "/new-email": mail.read_text().partition("/new-email?token=")[2][:43],
    }
    await api.account(email=FORM["email"])
    guest = await visitor(api)
    for path, token in tokens.items():
        fields = {"token": token, "name": "Grace Hopper", "password": "Hell0-World"}
        async with api.unchanged():
            refused = await guest.send(path, fields)
        assert refused.status_code == 409
        assert said(refused).startswith("There already is an account with this e-mail: sign in")
        assert "<form" not in refused.text


@pytest.mark.parametrize("languages", ["", "*", "de_DE", "x" * 99])
async def test_account_of_a_browser_without_language_is_english(api: Api, languages: str) -> None:
    _, admin = await signed_in(api, "admin")
    page = await admin.made("/users/invitations", **FORM)
    fields = {"token": page.text.partition("/invitation?token=")[2][:43], "name": "Grace"}
    guest = await visitor(api)
    fields["password"] = "Hell0-World"
    done = await guest.send("/invitation", fields, accept_language=languages)
    assert done.status_code == 303, done.text
    made = await api.live.users.by_email("grace@example.com")
    assert made is not None
    assert made.language == "en"


async def test_invitation_link_is_mailed_and_not_shown_with_a_mail_server(api: Api) -> None:
    api.live.has_mail_server = True
    _, admin = await signed_in(api, "admin")
    done = await admin.post("/users/invitations", **FORM)
    assert done.headers["location"] == "/dashboard/users/invitations?done=invited"
    await api.mailed()
    assert len([*(api.settings.data / "log").glob("*.eml")]) == 1


async def test_renewed_or_revoked_invitation_invalidates_its_link(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    first = (await admin.made("/users/invitations", **FORM)).text
    listed = (await admin.get("/users/invitations")).text
    (number,) = re.findall(r'name="id" value="(\d+)"', listed)
    second = (await admin.made("/users/invitations/renew", id=number)).text
    guest = await visitor(api)
    for page, status in ((first, 410), (second, 200)):
        token = page.partition("/invitation?token=")[2][:43]
        assert (await guest.get(f"/invitation?token={token}")).status_code == status
    listed = (await admin.get("/users/invitations")).text
    (number,) = re.findall(r'name="id" value="(\d+)"', listed)
    assert (await admin.get(f"/users/invitations/revoke?id={number}")).status_code == 200
    done = await admin.post("/users/invitations/revoke", id=number)
    assert done.headers["location"].endswith("done=invitation-revoked")
    token = second.partition("/invitation?token=")[2][:43]
    assert (await guest.get(f"/invitation?token={token}")).status_code == 410


async def test_invitation_revoked_meanwhile_is_not_renewed(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await invite(
        api.live, email="new@example.com", role="admin", plan="free", handed_over=True, by=OPERATOR
    )
    number = made.invitation.id
    found = api.live.invitations.get

    async def then_another_admin(*asked: Any) -> Invitation | None:
        monkeypatch.undo()
        read = await found(*asked)
        await revoke(api.live, number, OPERATOR)
        return read

    monkeypatch.setattr(api.live.invitations, "get", then_another_admin)
    with pytest.raises(NotFound):
        await renew(api.live, number, handed_over=True, by=OPERATOR)
    assert (await api.live.invitations.by_admins(offset=0, limit=1)).rows == []


async def test_concurrent_renewals_of_an_invitation_conflict(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts: Any = {"email": "new@example.com", "plan": "free", "handed_over": True, "by": OPERATOR}
    number = (await invite(api.live, role="admin", **facts)).invitation.id
    found = api.live.invitations.get

    async def then_another_admin(*asked: Any) -> Invitation | None:
        monkeypatch.undo()
        read = await found(*asked)
        await invite(api.live, role="viewer", **facts)
        return read

    monkeypatch.setattr(api.live.invitations, "get", then_another_admin)
    with pytest.raises(Conflict):
        await renew(api.live, number, handed_over=True, by=OPERATOR)
    (left,) = (await api.live.invitations.by_admins(offset=0, limit=2)).rows
    assert left.role == "viewer"


async def test_invitation_of_an_e_mail_with_an_account_is_a_conflict(api: Api) -> None:
    user, admin = await signed_in(api, "admin")
    taken = await admin.post("/users/invitations", **{**FORM, "email": user.email})
    assert taken.status_code == 409
    assert "exists already" in faults(taken)["email"]


@pytest.mark.parametrize(
    "place", ["https://localhost:8443/dashboard", "https://localhost:8443/auth"]
)
async def test_closed_sign_up_is_not_found(api: Api, place: str) -> None:
    guest = await visitor(api)
    page = await guest.client.get(f"{place}/sign-in")
    assert "/sign-up" not in page.text
    assert (await guest.get("/sign-up")).status_code == 404
    assert (await guest.send("/sign-up", {"email": "new@example.com"})).status_code == 404


@pytest.mark.parametrize(
    "environ", [{"PORTICO_SIGN_UP": "on", "PORTICO_SIGN_UP_ROLE": "viewer"}], ids=["on"]
)
async def test_replaced_sign_up_link_refers_to_the_newer_one(
    api: Api,
) -> None:
    post, guest = Post(api), await visitor(api)
    pages = []
    for _ in range(2):
        await guest.send("/sign-up", {"email": "new@example.com"})
        pages.append((await post.link()).removeprefix(DASHBOARD))
    older, latest = [await guest.get(link) for link in pages]
    assert (older.status_code, latest.status_code) == (410, 200)
    assert "was replaced by a newer one: open the latest one" in said(older)
    assert "invitation" not in said(older)
    another = 'href="/dashboard/sign-up">Create an account'
    assert another in older.text
    assert another not in latest.text


async def test_sign_up_answers_known_and_unknown_e_mails_alike(api: Api) -> None:
    api.live.sign_up_role = "viewer"
    user = await api.account()
    guest = await visitor(api)
    assert (await guest.get("/sign-up")).status_code == 200
    answers = []
    for email in (user.email, "new@example.com", " New@Example.com "):
        answer = await guest.send("/sign-up", {"email": email})
        counted = ("x-request-id", "x-ratelimit-remaining")
        headers = {k: v for k, v in answer.headers.items() if k not in counted}
        answers.append((answer.status_code, headers, answer.text))
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][1]["location"] == "/dashboard/sign-up/sent"
    assert "Ask the server operator" in (await guest.get("/sign-up/sent")).text


async def test_sign_up_page_names_the_domains_that_may(api: Api) -> None:
    api.live.sign_up_role = "viewer"
    api.live.sign_up_domains = ("example.com",)
    guest = await visitor(api)
    assert "An address at example.com." in (await guest.get("/sign-up")).text


async def test_new_e_mail_is_taken_by_its_link(api: Api) -> None:
    user, somebody = await signed_in(api)
    assert "/dashboard/email" in (await somebody.get("/profile")).text
    assert (await somebody.get("/email")).status_code == 200
    fields = {"email": "new@example.com", "current_password": "wrong"}
    refused = await somebody.post("/email", **fields)
    assert "not the current password" in faults(refused)["current_password"]
    done = await somebody.post("/email", **{**fields, "current_password": PASSWORD})
    assert done.headers["location"] == "/dashboard/profile?done=link-written"
    await api.mailed()
    (mail,) = (api.settings.data / "log").glob("*.eml")
    token = mail.read_text().partition("?token=")[2][:43]
    anywhere = await visitor(api)
    asked = await anywhere.get(f"/new-email?token={token}")
    assert (asked.status_code, asked.headers["referrer-policy"]) == (200, "no-referrer")
    assert (await api.live.users.by_email(user.email)) is not None
    taken = await anywhere.send("/new-email", {"token": token})
    assert taken.headers["location"] == "/dashboard/new-email/taken"
    page = await anywhere.get("/new-email/taken")
    assert "Your e-mail has changed" in page.text
    assert "verified" not in page.text
    assert (await anywhere.send("/new-email", {"token": token})).status_code == 422
    assert (await api.live.users.by_email("new@example.com")) is not None
