"""A form that was open while somebody else changed the same does not undo that untold."""

import re
from collections.abc import Awaitable, Callable
from html import unescape
from typing import Any

import pytest

from driving import Api
from pages.visiting import Visitor, signed_in, version_in
from portico.domain.audit import OPERATOR
from portico.services.clients import Registration, register_client
from signing_in import client_of

pytestmark = pytest.mark.one_engine


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    """Either engine."""
    return each_database


async def of_user(api: Api, _admin: Visitor) -> tuple[str, dict[str, Any]]:
    """An admin's form of a user."""
    user = await api.account("admin", name="Mallory")
    return f"/users/{user.id}", {
        "name": "Mallory",
        "email": user.email,
        "role": "admin",
        "plan": "free",
    }


async def of_client(api: Api, _admin: Visitor) -> tuple[str, dict[str, Any]]:
    """The form of a client."""
    uris = ("https://shop.example/callback", "https://stolen.example/back")
    shop = await client_of(api.live, redirect_uris=uris, scopes="read:products admin")
    return f"/clients/{shop.client.id}", {
        "name": "Shop",
        "redirect_uris": "\r\n".join(uris),
        "scopes": ["read:products", "admin"],
    }


async def of_webhook(_api: Api, admin: Visitor) -> tuple[str, dict[str, Any]]:
    """The form of a webhook."""
    fields = {"url": "https://hooks.example.com/", "types": ["*"], "description": "All"}
    await admin.post("/webhooks/new", **fields)
    return "/webhooks/1/edit", fields


async def of_oneself(_api: Api, _admin: Visitor) -> tuple[str, dict[str, Any]]:
    """One's own profile."""
    return "/profile", {
        "name": "Person",
        "avatar_url": "",
        "language": "en",
        "theme": "system",
        "mails": ["sign-ins", "keys", "expiring-keys", "roles"],
    }


Form = Callable[[Api, Visitor], Awaitable[tuple[str, dict[str, Any]]]]
FORMS: dict[str, tuple[Form, dict[str, Any], dict[str, Any], list[str]]] = {
    "user": (of_user, {"role": "viewer"}, {"name": "Mallory M."}, ["viewer", "Mallory M."]),
    "client": (
        of_client,
        {"redirect_uris": "https://shop.example/callback", "scopes": ["read:products"]},
        {"name": "The Shop"},
        ["https://shop.example/callback", "read:products", "The Shop"],
    ),
    "webhook": (
        of_webhook,
        {"types": ["user.created"]},
        {"description": "Everything"},
        ["user.created", "Everything"],
    ),
    "profile": (of_oneself, {"mails": ["keys"]}, {"name": "Ada"}, ["An API key is created", "Ada"]),
}


@pytest.mark.parametrize(("form", "theirs", "mine", "seen"), FORMS.values(), ids=FORMS)
async def test_what_was_changed_meanwhile_is_shown_and_not_overwritten(
    api: Api, form: Form, theirs: dict[str, Any], mine: dict[str, Any], seen: list[str]
) -> None:
    _, admin = await signed_in(api, "admin")
    path, fields = await form(api, admin)
    begun = {**fields, **mine, "version": version_in(await admin.get(path))}
    changed = await admin.saved(path, **fields | theirs)
    assert changed.status_code == 303, changed.text
    async with api.unchanged():
        for stale in (begun, begun | {"version": ""}, begun | {"version": "*, x"}):
            answer = await admin.post(path, **stale)
            assert answer.status_code == 412
    text = unescape(answer.text)
    assert "was changed while you were editing it" in text
    assert "<title>Error: " in text
    assert re.findall("<[^>]* autofocus>", text) == [
        '<section class="card" role="alert" tabindex="-1" autofocus>'
    ]
    told = text.partition("was changed while you were editing it")[2].partition("</section>")[0]
    for words in seen:
        assert words in told, told
    on_top = {**begun, "version": version_in(answer)}
    saved = await admin.post(path, **on_top)
    assert saved.status_code == 303, saved.text
    again = (await admin.get(path)).text
    assert next(str(text) for text in mine.values()) in unescape(again)


@pytest.mark.parametrize("form", FORMS)
async def test_a_form_in_which_nothing_was_changed_says_so(api: Api, form: str) -> None:
    _, admin = await signed_in(api, "admin")
    fill, theirs, _, _ = FORMS[form]
    path, fields = await fill(api, admin)
    await admin.saved(path, **fields)
    for change, nothing in (({}, True), (theirs, False), (theirs, True)):
        answer = await admin.saved(path, **fields | change)
        assert answer.status_code == 303, answer.text
        assert ("done=nothing-changed" in answer.headers["location"]) == nothing


@pytest.mark.parametrize("form", [of_user, of_client, of_webhook, of_oneself])
async def test_a_form_that_is_refused_keeps_the_version_that_it_began_with(
    api: Api, form: Form
) -> None:
    _, admin = await signed_in(api, "admin")
    path, fields = await form(api, admin)
    begun = version_in(await admin.get(path))
    first, *_ = fields
    answer = await admin.post(path, **fields | {first: "", "version": begun})
    assert answer.status_code == 422
    assert version_in(answer) == begun


async def test_a_clients_name_of_several_lines_stays_as_it_is(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    name = "The\nshop"
    wanted = Registration(name, ["https://shop.example/callback"], "read:products")
    made = await register_client(api.live, None, wanted, public=True, by=OPERATOR)
    path = f"/clients/{made.client.id}"
    page = await admin.get(path)
    assert '<textarea id="name" name="name"' in page.text
    assert f"{name}</textarea>" in page.text
    fields = {"name": "The\r\nshop", "redirect_uris": "https://shop.example/back"}
    assert (await admin.saved(path, **fields, scopes=["read:products"])).status_code == 303
    stored = await api.live.clients.get(made.client.id)
    assert stored is not None
    assert (stored.name, stored.redirect_uris) == (name, ("https://shop.example/back",))
