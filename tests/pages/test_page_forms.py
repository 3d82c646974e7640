"""What holds for every form: its faults, its version, and that it is carried out once."""

import asyncio
import re
from html import unescape
from typing import Any

import pytest

from driving import Api
from pages.visiting import PASSWORD, Visitor, faults, once_of, said, signed_in, version_in
from portico.core.audit import OPERATOR
from portico.environment import Environment
from portico.features.events.audit import Audit
from portico.features.people.invitations import invite
from portico.features.people.recovery import give_reset
from signing_in import client_of

TEXT = "Grace\nHopper"
SECRET = re.compile(r'<code id="secret">(\S+?)</code>')
URL = "https://hooks.example.com/in"
URIS = ("https://shop.example/callback", "https://stolen.example/back")
KEY = {"name": "One", "type": "live", "expiry": "never"}
CLIENT = {"name": "Shop", "kind": "confidential", "redirect_uris": "https://shop.test/"}
HOOK = {"url": URL, "types": "user.created", "description": ""}
PERSON = {"name": "Dora", "email": "dora@example.com", "role": "viewer", "plan": "free"}
PRODUCT = {"f-name": "Lamp", "f-category": "light", "f-price": "12.50", "f-currency": "EUR"}
PRODUCT |= {"f-stock_quantity": "3", "f-status": "draft", "f-description": ""}


async def begin(api: Api, admin: Visitor, kind: str) -> tuple[str, dict[str, Any]]:
    """The page that changes something of a kind, and its fields."""
    if kind == "user":
        user = await api.account("admin", name=TEXT, plan="free")
        fields: dict[str, Any] = {"email": user.email, "role": "admin", "plan": "free"}
        return f"/users/{user.id}/edit", {"name": TEXT, **fields}
    if kind == "product":
        product = await api.product(name=TEXT, price=125_000, currency="EUR", stock_quantity=3)
        return f"/products/{product.id}/edit", {**PRODUCT, "f-name": TEXT}
    shop = await client_of(api.live, redirect_uris=URIS, scopes="read:products admin")
    path, scopes = f"/clients/{shop.client.id}", ["read:products", "admin"]
    fields = {"name": TEXT, "redirect_uris": "\r\n".join(URIS), "scopes": scopes}
    assert (await admin.saved(path, **fields)).status_code == 303
    return path, fields


@pytest.mark.parametrize(
    ("kind", "theirs", "shown"),
    [
        ("user", {"role": "viewer"}, ("viewer", "Mallory M.")),
        ("client", {"redirect_uris": URIS[0], "scopes": ["read:products"]}, URIS[:1]),
        ("product", {"f-price": "20"}, (">Name<", ">Mallory M.<", ">20.00 EUR<", ">12.50 EUR<")),
    ],
)
async def test_stale_form_is_refused_with_both_values_and_can_be_saved_on_top(
    api: Api, kind: str, theirs: dict[str, Any], shown: tuple[str, ...]
) -> None:
    _, admin = await signed_in(api, "admin")
    path, fields = await begin(api, admin, kind)
    version = version_in(await admin.get(path))
    named = "f-name" if kind == "product" else "name"
    begun = {**fields, named: "Mallory M.", "version": version}
    assert (await admin.saved(path, **fields | theirs)).status_code == 303
    faulty = await admin.post(path, **begun | {named: ""})
    assert (faulty.status_code, version_in(faulty)) == (422, version)
    async with api.unchanged():
        for stale in (begun, begun | {"version": ""}, begun | {"version": "*, x"}):
            answer = await admin.post(path, **stale)
            assert answer.status_code == 412
    text = unescape(answer.text)
    beside = text.partition("was changed while you were editing it")[2].partition("</section>")[0]
    for words in shown:
        assert words in beside, beside
    saved = await admin.post(path, **{**begun, "version": version_in(answer)})
    assert saved.status_code == 303, saved.text
    assert "Mallory M." in (await admin.get(path)).text


@pytest.mark.parametrize("kind", ["user", "client", "product"])
async def test_unchanged_form_writes_nothing_and_keeps_the_lines_of_a_text(
    api: Api, kind: str
) -> None:
    _, admin = await signed_in(api, "admin")
    path, fields = await begin(api, admin, kind)
    named = "f-name" if kind == "product" else "name"
    async with api.unchanged():
        answer = await admin.saved(path, **fields | {named: TEXT.replace("\n", "\r\n")})
    assert "done=nothing-changed" in answer.headers["location"]
    assert f"{TEXT}</textarea>" in (await admin.get(path)).text


CREATIONS: dict[str, tuple[str, dict[str, str], str]] = {
    "/keys/new": ("/keys/new", KEY, "/keys/rotate"),
    "/clients/new": ("/clients/new", CLIENT, "/clients/secret"),
    "/webhooks/new": ("/webhooks/new", HOOK, "/webhooks/secret"),
    "/products/new": ("/products/new", PRODUCT, ""),
    "/users/new": ("/users/new", PERSON | {"password": PASSWORD}, ""),
    "/users/invitations/new": ("/users/invitations/new", PERSON, ""),
    "/sandbox/keys/new": ("/sandbox/keys/new", KEY | {"type": "test"}, "/sandbox/keys/rotate"),
}
"""By its page, where a form is sent that makes something, its fields, and where its secret is
renewed."""


async def session_entries(env: Environment) -> int:
    """How many entries of the audit log are of somebody who was signed in."""
    entries = await env[Audit].page(limit=99)
    return sum(entry.credential == "session" and entry.user_id is not None for entry in entries)


@pytest.mark.parametrize("page", CREATIONS)
async def test_form_sent_three_times_is_carried_out_once_and_leads_to_one_page(
    api: Api, page: str
) -> None:
    _, admin = await signed_in(api, "admin")
    env = api.sandbox if page.startswith("/sandbox") else api.live
    to, fields, renewal = CREATIONS[page]
    forms = [(page, to, fields)]
    if renewal:
        forms.append((f"{renewal}?id=1", renewal, {"id": "1"}))
    places = set()
    for page, to, fields in forms:
        before = await session_entries(env)
        sent = {**fields, "once": once_of(await admin.get(page), to)}
        answers = await asyncio.gather(*(admin.post(to, **sent) for _ in range(2)))
        answers.append(await admin.post(to, **sent))
        (where,) = {answer.headers.get("location", answer.text) for answer in answers}
        shown = [await admin.get(where.removeprefix("/dashboard")) for _ in answers]
        assert {one.status_code for one in shown} == {200}
        secrets = {text for one in shown for text in SECRET.findall(one.text)}
        assert len(secrets) == ("/once" in where)
        assert await session_entries(env) == before + 1
        places.add(where)
    assert len(places) == len(forms)
    for row in await env.db.all("SELECT headers, body FROM idempotency_keys"):
        assert "page=" not in f"{row[0]}{bytes(row[1])!r}", "a copy of the database opens nothing"


EMPTY, GUESSED = "Must not be empty.", "guessed first"
BAD_PRODUCT = PRODUCT | {"f-name": " ", "f-category": "", "f-price": "1,234", "f-currency": "XXQ"}
BAD_PRODUCT |= {"f-stock_quantity": "-1", "f-images-1-url": "javascript:alert(1)"}
BAD_PRODUCT |= {"f-images-2-url": "", "f-images-2-alt": "Without an address"}
BAD_PRODUCT |= {"f-metadata-1-name": "colour", "f-metadata-1-value": "brass"}
BAD_PRODUCT |= {"f-metadata-2-name": "", "f-metadata-2-value": "Without a name"}
BAD_PRODUCT |= {"f-metadata-3-name": "colour", "f-metadata-3-value": ""}
BAD_PRODUCT_TOLD = {
    "f-name": "",
    "f-category": EMPTY,
    "f-price": "1234 or 1.2340",
    "f-currency": "",
}
BAD_PRODUCT_TOLD |= {"f-stock_quantity": "Must be from 0 to 2147483647.", "f-images-1-url": ""}
BAD_PRODUCT_TOLD |= {
    "f-images-2-url": "",
    "f-metadata-2-name": "",
    "f-metadata-3-name": "Is used twice",
}
REFUSALS: list[tuple[str, str, dict[str, Any], dict[str, str]]] = [
    (
        "admin",
        "/clients/new",
        {"name": "", "kind": "", "redirect_uris": "https://one.test/#x\r\nftp://three.test/"},
        {"name": "Must be 1 to 100", "kind": "", "redirect_uris": "#x must have no fragment"},
    ),
    (
        "admin",
        "/webhooks/new",
        {"url": "https://10.0.0.1/in", "description": "x" * 201},
        {"url": "10.0.0.1", "types": "Must have at least one.", "description": "at most 200"},
    ),
    (
        "admin",
        "/users/new",
        {"name": "", "email": "nobody", "role": "king", "plan": "gold", "password": "weak"},
        {
            "name": EMPTY,
            "email": "valid e-mail",
            "role": "one of",
            "plan": "one of",
            "password": "",
        },
    ),
    ("editor", "/sandbox/products/new", BAD_PRODUCT, BAD_PRODUCT_TOLD),
    ("editor", "/products/1/edit", BAD_PRODUCT, BAD_PRODUCT_TOLD),
    (
        "editor",
        "/keys/new",
        {"name": "", "networks": "10.0.0.0/8\n10.0.0.1/8", "expiry": "2d", "type": "test"},
        {"name": EMPTY, "networks": "“10.0.0.1/8” must be", "expiry": "one of", "type": "one of"},
    ),
    (
        "viewer",
        "/password",
        {"current_password": PASSWORD, "password": "Hello-Lovelace-1"},
        {"current_password": "Enter your password again.", "password": GUESSED},
    ),
    (
        "viewer",
        "/invitation?token={invited}",
        {"token": "{invited}", "name": "", "password": "Grace-1952"},
        {"name": EMPTY, "password": GUESSED},
    ),
    (
        "viewer",
        "/reset?token={reset}",
        {"token": "{reset}", "password": "Hello-Hopper-1"},
        {"password": GUESSED},
    ),
    ("viewer", "/sign-in", {"email": "", "password": ""}, {"email": EMPTY, "password": EMPTY}),
]
CHOICES = ("role", "plan", "kind", "type", "expiry", "f-status", "f-currency", "token")
"""Fields that show one of their choices instead of what was sent."""


async def test_refused_form_names_every_fault_keeps_what_was_typed_and_changes_nothing(
    api: Api,
) -> None:
    visitors = {role: (await signed_in(api, role))[1] for role in ("admin", "editor")}
    _, ada = await signed_in(api, name="Ada Lovelace", email="ada@example.com")
    visitors["viewer"] = ada
    grace = await api.account(name="Grace Hopper")
    await api.product(name="Lamp")
    person: Any = {"email": "grace@example.com", "name": "", "role": "viewer", "plan": "free"}
    links = {
        "invited": (await invite(api.live, **person, handed_over=True, by=OPERATOR)).link,
        "reset": (await give_reset(api.live, grace.id, OPERATOR)).link,
    }
    names = {name: link.partition("token=")[2] for name, link in links.items()}
    for role, path, fields, told in REFUSALS:
        sent = {name: value.format(**names) for name, value in fields.items()}
        async with api.unchanged():
            page = await visitors[role].post(path.format(**names), **sent)
        assert page.status_code == 422, page.text
        found = {name: text for name, text in faults(page).items() if text}
        assert found.keys() == told.keys(), (path, found)
        for name, words in told.items():
            assert words in found[name], path
        assert said(page) == "Correct the fields marked below."
        assert "<title>Error: " in page.text
        (focused,) = re.findall("<[^>]* autofocus>", page.text)
        assert re.findall(r'id="([a-z_0-9-]+)"', focused)[0].startswith(tuple(found))
        text = unescape(page.text)
        for name, value in sent.items():
            if "password" in name:
                assert not value or f'"{value}"' not in text
            elif value and name not in CHOICES:
                assert value.replace("\r\n", "\n") in text, name


async def test_choice_that_the_page_does_not_offer_is_a_bad_request(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    async with api.unchanged():
        assert (await editor.post("/keys/new", **KEY, scopes="admin")).status_code == 400
