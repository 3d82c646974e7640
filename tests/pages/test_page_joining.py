"""The pages by which people get an account."""

import re
from typing import Any

import pytest

from driving import Api
from pages.visiting import DASHBOARD, ORIGIN, PASSWORD, faults, said, signed_in, visitor
from portico.core.audit import OPERATOR
from portico.core.errors import Conflict, NotFound
from portico.features.people.invitations import invite, renew, revoke
from portico.features.people.rules import Invitation
from portico.features.people.storage import Invitations, Users

FORM = {"email": "grace@example.com", "name": "Grace", "role": "editor", "plan": "pro"}


def token_in(text: str, of: str = "/invitation") -> str:
    """The token of the link in a page or a mail."""
    return text.partition(f"{of}?token=")[2][:43]


async def test_invitation_makes_an_account_once(api: Api) -> None:
    user, admin = await signed_in(api, "admin")
    taken = await admin.post("/users/invitations/new", **{**FORM, "email": user.email})
    assert "exists already" in faults(taken)["email"]
    token = token_in((await admin.made("/users/invitations/new", **FORM)).text)
    guest = await visitor(api)
    shown = await guest.get(f"/invitation?token={token}")
    assert shown.headers["referrer-policy"] == "no-referrer"
    for text in ("grace@example.com", "editor", 'value="Grace"'):
        assert text in shown.text
    fields = {"token": token, "name": "Grace Hopper", "password": "Hell0-World"}
    done = await guest.send("/invitation", fields, accept_language="de-AT,de;q=0.9")
    assert done.headers["location"] == "/dashboard/sign-in?done=account-made"
    made = await api.live[Users].by_email("grace@example.com")
    assert made is not None
    assert (made.role, made.plan, made.language) == ("editor", "pro", "de-AT")
    again = await guest.send("/invitation", fields)
    assert again.status_code == 422
    assert "was used" in said(again)
    assert (await guest.get(f"/invitation?token={token}")).status_code == 410
    assert "No one is invited yet" in (await admin.get("/users/invitations")).text


async def test_renewed_or_revoked_invitation_invalidates_its_link(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    guest = await visitor(api)
    first = token_in((await admin.made("/users/invitations/new", **FORM)).text)
    second = token_in((await admin.made("/users/invitations/renew", id=1)).text)
    assert (await guest.get(f"/invitation?token={first}")).status_code == 410
    assert (await guest.get(f"/invitation?token={second}")).status_code == 200
    listed = (await admin.get("/users/invitations")).text
    (number,) = re.findall(r'name="id" value="(\d+)"', listed)
    done = await admin.post("/users/invitations/revoke", id=number)
    assert done.headers["location"].endswith("done=invitation-revoked")
    assert (await guest.get(f"/invitation?token={second}")).status_code == 410


@pytest.mark.parametrize(
    ("act", "error", "left"), [("revoke", NotFound, []), ("invite", Conflict, ["viewer"])]
)
async def test_invitation_changed_meanwhile_is_not_renewed(
    api: Api, monkeypatch: pytest.MonkeyPatch, act: str, error: type[Exception], left: list[str]
) -> None:
    facts: Any = {"email": "new@example.com", "plan": "free", "handed_over": True, "by": OPERATOR}
    number = (await invite(api.live, role="admin", **facts)).invitation.id
    found = api.live[Invitations].get

    async def then_another_admin(*asked: Any) -> Invitation | None:
        monkeypatch.undo()
        read = await found(*asked)
        if act == "revoke":
            await revoke(api.live, number, OPERATOR)
        else:
            await invite(api.live, role="viewer", **facts)
        return read

    monkeypatch.setattr(api.live[Invitations], "get", then_another_admin)
    with pytest.raises(error):
        await renew(api.live, number, handed_over=True, by=OPERATOR)
    rows = (await api.live[Invitations].by_admins(offset=0, limit=2)).rows
    assert [row.role for row in rows] == left


async def test_closed_sign_up_is_not_found(api: Api) -> None:
    guest = await visitor(api)
    for place in (DASHBOARD, f"{ORIGIN}/auth"):
        assert "/sign-up" not in (await guest.client.get(f"{place}/sign-in")).text
    assert (await guest.get("/sign-up")).status_code == 404
    assert (await guest.send("/sign-up", {"email": "new@example.com"})).status_code == 404


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


async def test_new_e_mail_is_taken_by_its_link_once(api: Api) -> None:
    user, somebody = await signed_in(api)
    await somebody.get("/email")
    fields = {"email": "new@example.com", "current_password": "wrong"}
    refused = await somebody.post("/email", **fields)
    assert "not the current password" in faults(refused)["current_password"]
    done = await somebody.post("/email", **{**fields, "current_password": PASSWORD})
    assert done.headers["location"] == "/dashboard/profile?done=link-written"
    await api.mailed()
    (mail,) = (api.settings.data / "log").glob("*.eml")
    token = token_in(mail.read_text(), "")
    anywhere = await visitor(api)
    asked = await anywhere.get(f"/new-email?token={token}")
    assert (asked.status_code, asked.headers["referrer-policy"]) == (200, "no-referrer")
    assert (await api.live[Users].by_email(user.email)) is not None
    taken = await anywhere.send("/new-email", {"token": token})
    assert taken.headers["location"] == "/dashboard/new-email/taken"
    assert (await anywhere.send("/new-email", {"token": token})).status_code == 422
    assert (await api.live[Users].by_email("new@example.com")) is not None
