"""A form whose session has ended comes back filled, once, to whoever filled it in."""

import asyncio
import re
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from driving import Api
from pages.visiting import ORIGIN, PASSWORD, Visitor, faults, said, signed_in, visitor
from portico.domain.audit import OPERATOR
from portico.domain.errors import Conflict
from portico.domain.times import SECOND
from portico.domain.users import User
from portico.pages.kept_forms import MAX_BYTES
from portico.services.shown_once import FORM_WAITS, MAX_FORMS, keep_form, take_form
from portico.services.sign_out import sign_out_everywhere
from signing_in import AUTH, CALLBACK, CHALLENGE, client_of

pytestmark = pytest.mark.one_engine

PRODUCT = {"name": "Lamp <b>", "category": "light", "price": "12.50", "currency": "EUR"}
PRODUCT |= {"stock_quantity": "3", "status": "draft", "description": "Two\nlines"}
BACK = "You are signed in again, and nothing was sent yet."
GONE = "What you filled in before you signed in is no longer available"


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    """Both engines."""
    return each_database


def shown(page: httpx.Response) -> dict[str, str]:
    """What the fields of a page show, the hidden ones too."""
    main = page.text.partition("<main")[2]
    inputs = re.findall(r'<input [^>]*name="([^"]+)"[^>]* value="([^"]*)"', main)
    areas = re.findall(r'<textarea [^>]*name="([^"]+)"[^>]*>\n([^<]*)', main)
    return {name: unescape(value) for name, value in [*inputs, *areas]}


async def filled(api: Api, somebody: Visitor, user: User, path: str, **fields: Any) -> str:
    """Sends a form once all sessions of its sender have ended; where signing in leads then."""
    await somebody.get(path)
    await sign_out_everywhere(api.live, user.id, OPERATOR)
    answer = await somebody.post(path, **fields)
    assert answer.status_code == 303, answer.text
    where = urlsplit(answer.headers["location"])
    assert where.path == "/dashboard/sign-in"
    query = parse_qs(where.query)
    page = await somebody.client.get(ORIGIN + answer.headers["location"])
    assert "You were signed out, so nothing was sent." in said(page, "status")
    told = "comes back" if "kept=" in query["next"][0] else "fill it in again"
    assert told in said(page, "status")
    return query["next"][0]


async def sign_in(somebody: Visitor, user: User, target: str) -> httpx.Response:
    """The page that a browser is led to by signing in."""
    answer = await somebody.send(
        "/sign-in", {"email": user.email, "password": PASSWORD, "next": target}
    )
    assert answer.headers["location"] == target
    return await somebody.get(target.removeprefix("/dashboard"))


async def test_a_filled_form_comes_back_after_signing_in_and_makes_one_thing(api: Api) -> None:
    user, editor = await signed_in(api, "editor")
    before = len([one async for batch in api.live.products.batches() for one in batch])
    page = await editor.get("/products/new")
    once = shown(page)["once"]
    target = await filled(api, editor, user, "/products/new", **PRODUCT, once=once)
    page = await sign_in(editor, user, target)
    assert page.status_code == 200
    assert BACK in said(page, "status")
    fields = shown(page)
    typed = {name: PRODUCT[name] for name in ("name", "category", "price", "description")}
    assert typed.items() <= fields.items()
    assert re.search(r'<option value="EUR" selected>', page.text)
    assert fields["once"] == once
    sent = {**PRODUCT, "once": once}
    for _ in range(2):
        assert (await editor.post("/products/new", **sent)).status_code == 303
    after = len([one async for batch in api.live.products.batches() for one in batch])
    assert after == before + 1


async def test_a_form_of_the_sandbox_comes_back_there(api: Api) -> None:
    user, editor = await signed_in(api, "editor")
    key = {"name": "Till <i>", "type": "test", "expiry": "never"}
    target = await filled(api, editor, user, "/sandbox/keys", **key)
    assert target.startswith("/dashboard/sandbox/keys?kept=")
    assert shown(await sign_in(editor, user, target))["name"] == "Till <i>"


async def test_it_comes_back_once(api: Api) -> None:
    user, editor = await signed_in(api, "editor")
    target = await filled(api, editor, user, "/products/new", **PRODUCT)
    assert "Lamp" in (await sign_in(editor, user, target)).text
    again = await editor.get(target.removeprefix("/dashboard"))
    assert GONE in said(again, "status")
    assert "Lamp" not in again.text


async def test_nobody_else_gets_it_and_its_sender_still_does(api: Api) -> None:
    user, editor = await signed_in(api, "editor")
    other, _ = await signed_in(api, "editor")
    target = await filled(api, editor, user, "/products/new", **PRODUCT)
    page = await sign_in(editor, other, target)
    assert GONE in said(page, "status")
    assert "Lamp" not in page.text
    assert "Lamp" in (await sign_in(await visitor(api), user, target)).text


async def sandbox_token(api: Api, user: User) -> str:
    """The form's token on the page by which the sandbox asks a user of its own for consent."""
    app = await client_of(api.sandbox, public=True)
    client = api.stranger()
    signing_in = {"email": user.email, "password": PASSWORD}
    at = AUTH["sandbox"]
    await client.post(f"{at}/sign-in", data=signing_in, headers={"origin": ORIGIN})
    wanted = {"response_type": "code", "client_id": app.client.client_id}
    wanted |= {"redirect_uri": CALLBACK, "code_challenge": CHALLENGE}
    page = await client.get(f"{at}/authorize", params=wanted | {"code_challenge_method": "S256"})
    found = re.search(r'name="csrf" value="(\w+)"', page.text)
    assert found, page.text
    return found[1]


async def test_nobody_of_the_sandbox_lays_one_out_for_a_user_of_the_same_number(api: Api) -> None:
    user = await api.account("editor", password=PASSWORD)
    tester = await api.account(env=api.sandbox, password=PASSWORD)
    assert tester.id == user.id
    token = await sandbox_token(api, tester)
    assert f"_{user.id}_" in token
    stranger = await visitor(api)
    answer = await stranger.send("/products/new", {**PRODUCT, "csrf": token})
    assert answer.status_code == 303
    assert "kept=" not in answer.headers["location"]
    assert await api.live.db.all("SELECT 1 FROM shown_once") == []


async def test_it_waits_for_an_hour(api: Api) -> None:
    user, editor = await signed_in(api, "editor")
    target = await filled(api, editor, user, "/products/new", **PRODUCT)
    api.clock.advance(milliseconds=FORM_WAITS)
    page = await sign_in(editor, user, target)
    assert GONE in said(page, "status")
    early = await filled(api, editor, user, "/products/new", **PRODUCT)
    api.clock.advance(milliseconds=FORM_WAITS - SECOND)
    assert "Lamp" in (await sign_in(editor, user, early)).text


async def test_what_is_kept_holds_no_password(api: Api) -> None:
    user, admin = await signed_in(api, "admin")
    fields = {"name": "Grace", "email": "grace@example.com", "role": "viewer"}
    target = await filled(api, admin, user, "/users/new", **fields, password="Secret-18431")
    (token,) = parse_qs(urlsplit(target).query)["kept"]
    kept = await take_form(api.live, user.id, token, OPERATOR)
    assert kept is not None
    assert b"grace@example.com" in kept
    assert b"Secret-18431" not in kept


async def test_a_form_comes_back_to_its_own_page_alone(api: Api) -> None:
    user, editor = await signed_in(api, "editor")
    target = await filled(api, editor, user, "/products/new", **PRODUCT)
    page = await sign_in(editor, user, target.replace("/products/new", "/keys"))
    assert GONE in said(page, "status")
    assert "Lamp" not in page.text


async def test_passwords_are_not_kept_and_are_asked_for_at_their_field(api: Api) -> None:
    user, admin = await signed_in(api, "admin")
    fields = {"name": "Grace", "email": "grace@example.com", "role": "editor", "plan": "pro"}
    target = await filled(api, admin, user, "/users/new", **fields, password="Secret-18431")
    page = await sign_in(admin, user, target)
    assert faults(page) == {"password": "Enter your password again."}
    assert "Secret-18431" not in page.text
    assert shown(page)["email"] == "grace@example.com"
    assert re.search(r'<option value="pro" selected>', page.text)
    assert re.search(r'name="password"[^>]*aria-invalid="true" autofocus', page.text)


async def test_what_waits_is_stored_so_that_the_database_alone_does_not_tell_it(api: Api) -> None:
    user, editor = await signed_in(api, "editor")
    target = await filled(api, editor, user, "/products/new", **PRODUCT)
    (row,) = await api.live.db.all("SELECT token_hash, page FROM shown_once")
    assert b"Lamp" not in bytes(row[1])
    assert parse_qs(urlsplit(target).query)["kept"][0].encode() not in bytes(row[0])


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/products/new", {**PRODUCT, "description": "x" * MAX_BYTES}),
        ("/products/new", {**PRODUCT, "csrf": "none"}),
        ("/products/new", {**PRODUCT, "csrf": f"{'0' * 32}_1_{'0' * 32}"}),
        ("/users/invitations/renew", {}),
    ],
    ids=["too large", "of no page", "forged", "shown by no page"],
)
async def test_what_cannot_be_kept_is_told_and_leaves_nothing(
    api: Api, path: str, fields: dict[str, str]
) -> None:
    user, editor = await signed_in(api, "editor")
    target = await filled(api, editor, user, path, **fields)
    assert "kept=" not in target
    assert await api.live.db.all("SELECT 1 FROM shown_once") == []


async def test_as_many_forms_wait_for_somebody_as_they_may_have(api: Api) -> None:
    user, editor = await signed_in(api, "editor")
    for _ in range(MAX_FORMS):
        assert "kept=" in await filled(api, editor, user, "/products/new", **PRODUCT)
    assert "kept=" not in await filled(api, editor, user, "/products/new", **PRODUCT)
    other, another = await signed_in(api, "editor")
    assert "kept=" in await filled(api, another, other, "/products/new", **PRODUCT)


async def test_no_more_forms_wait_however_many_come_at_once(api: Api) -> None:
    user, _ = await signed_in(api, "editor")
    kept = await asyncio.gather(
        *(keep_form(api.live, user.id, b"{}", OPERATOR) for _ in range(2 * MAX_FORMS)),
        return_exceptions=True,
    )
    assert sum(isinstance(one, Conflict) for one in kept) == MAX_FORMS
    assert len(await api.live.db.all("SELECT 1 FROM shown_once")) == MAX_FORMS


async def test_a_form_of_an_earlier_session_of_ones_own_is_shown_again(api: Api) -> None:
    user, editor = await signed_in(api, "editor")
    await editor.get("/products/new")
    old = editor.csrf
    await editor.send("/sign-in", {"email": user.email, "password": PASSWORD})
    async with api.unchanged():
        page = await editor.send("/products/new", {**PRODUCT, "csrf": old})
    assert page.status_code == 409
    assert BACK in said(page, "status")
    assert shown(page)["name"] == PRODUCT["name"]
    _, other = await signed_in(api, "editor")
    assert (await other.send("/products/new", {**PRODUCT, "csrf": old})).status_code == 403
