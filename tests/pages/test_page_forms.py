"""What holds for every form: its faults, its version, and that it is carried out once."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from html import unescape
from typing import Any, NamedTuple

import pytest

from driving import Api
from pages.visiting import PASSWORD, Visitor, faults, once_of, said, signed_in, version_in
from portico.core.audit import OPERATOR
from portico.environment import Environment
from portico.features.events.audit import Audit
from portico.features.people.invitations import invite
from portico.features.people.recovery import give_reset
from portico.features.signin.second_factor import offer_authenticator
from signing_in import client_of

pytestmark = pytest.mark.one_engine

TEXT = "Grace\nHopper"
SECRET = re.compile(r'<code id="secret">(\S+?)</code>')
URL = "https://hooks.example.com/in"
URIS = ("https://shop.example/callback", "https://stolen.example/back")
EMAIL = "ada@example.com"
KEY = {"name": "One", "type": "live", "expiry": "never"}
CLIENT = {"name": "Shop", "kind": "confidential", "redirect_uris": "https://shop.test/"}
HOOK = {"url": URL, "types": "user.created", "description": ""}
PERSON = {"name": "Dora", "email": "dora@example.com", "role": "viewer", "plan": "free"}
PRODUCT = {
    "name": "Lamp",
    "category": "light",
    "price": "12.50",
    "currency": "EUR",
    "stock_quantity": "3",
    "status": "draft",
    "description": "",
}


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    return each_database


async def add_user(api: Api, _admin: Visitor) -> tuple[str, dict[str, Any]]:
    user = await api.account("admin", name=TEXT, plan="free")
    return f"/users/{user.id}", {
        "name": TEXT,
        "email": user.email,
        "role": "admin",
        "plan": "free",
    }


async def add_client(api: Api, admin: Visitor) -> tuple[str, dict[str, Any]]:
    shop = await client_of(api.live, redirect_uris=URIS, scopes="read:products admin")
    path = f"/clients/{shop.client.id}"
    scopes = ["read:products", "admin"]
    fields = {"name": TEXT, "redirect_uris": "\r\n".join(URIS), "scopes": scopes}
    assert (await admin.saved(path, **fields)).status_code == 303
    return path, fields


async def add_webhook(_api: Api, admin: Visitor) -> tuple[str, dict[str, Any]]:
    fields = {"url": URL, "types": ["*"], "description": TEXT}
    assert (await admin.post("/webhooks/new", **fields)).status_code == 303
    return "/webhooks/1/edit", fields


async def add_product(api: Api, _admin: Visitor) -> tuple[str, dict[str, Any]]:
    product = await api.product(name=TEXT, price=125_000, currency="EUR", stock_quantity=3)
    return f"/products/{product.id}/edit", {**PRODUCT, "name": TEXT}


async def name_oneself(_api: Api, admin: Visitor) -> tuple[str, dict[str, Any]]:
    mails = ["sign-ins", "keys", "expiring-keys", "roles"]
    fields = {"name": TEXT, "avatar_url": "", "language": "en", "theme": "system", "mails": mails}
    assert (await admin.saved("/profile", **fields)).status_code == 303
    return "/profile", fields


class Edit(NamedTuple):
    """A form that changes something: how to make that, which field has lines, what others change
    meanwhile, what its sender changes, and which values are then shown side by side."""

    add: Callable[[Api, Visitor], Awaitable[tuple[str, dict[str, Any]]]]
    lines: str
    theirs: dict[str, Any]
    mine: dict[str, Any]
    shown: tuple[str, ...]


EDITS = {
    "user": Edit(
        add_user, "name", {"role": "viewer"}, {"name": "Mallory M."}, ("viewer", "Mallory M.")
    ),
    "client": Edit(
        add_client,
        "name",
        {"redirect_uris": URIS[0], "scopes": ["read:products"]},
        {"name": "The Shop"},
        (URIS[0], "read:products", "The Shop"),
    ),
    "webhook": Edit(
        add_webhook,
        "description",
        {"types": ["user.created"]},
        {"description": "Everything"},
        ("user.created", "Everything"),
    ),
    "product": Edit(
        add_product,
        "name",
        {"stock_quantity": "7", "price": "20"},
        {"name": "Floor lamp"},
        (">Name<", ">Floor lamp<", ">20.00 EUR<", ">12.50 EUR<", ">7<", ">3<"),
    ),
    "profile": Edit(
        name_oneself, "name", {"mails": ["keys"]}, {"name": "Ada"}, ("An API key is created", "Ada")
    ),
}

edits = pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)


@edits
async def test_stale_form_is_refused_with_both_values_and_can_be_saved_on_top(
    api: Api, edit: Edit
) -> None:
    _, admin = await signed_in(api, "admin")
    path, fields = await edit.add(api, admin)
    version = version_in(await admin.get(path))
    begun = {**fields, **edit.mine, "version": version}
    assert (await admin.saved(path, **fields | edit.theirs)).status_code == 303
    faulty = await admin.post(path, **begun | {next(iter(fields)): ""})
    assert (faulty.status_code, version_in(faulty)) == (422, version)
    async with api.unchanged():
        for stale in (begun, begun | {"version": ""}, begun | {"version": "*, x"}):
            answer = await admin.post(path, **stale)
            assert answer.status_code == 412
    text = unescape(answer.text)
    beside = text.partition("was changed while you were editing it")[2].partition("</section>")[0]
    for words in edit.shown:
        assert words in beside, beside
    saved = await admin.post(path, **{**begun, "version": version_in(answer)})
    assert saved.status_code == 303, saved.text
    again = unescape((await admin.get(path)).text)
    assert next(str(value) for value in edit.mine.values()) in again


@edits
async def test_unchanged_form_writes_nothing_says_so_and_keeps_the_lines_of_a_text(
    api: Api, edit: Edit
) -> None:
    _, admin = await signed_in(api, "admin")
    path, fields = await edit.add(api, admin)
    page = await admin.get(path)
    assert f'<textarea id="{edit.lines}" name="{edit.lines}"' in page.text
    assert f"{TEXT}</textarea>" in page.text
    sent = fields | {edit.lines: TEXT.replace("\n", "\r\n")}
    async with api.unchanged():
        answer = await admin.saved(path, **sent)
    assert "done=nothing-changed" in answer.headers["location"]
    answer = await admin.saved(path, **sent | edit.theirs)
    assert "-changed" in answer.headers["location"] or "-saved" in answer.headers["location"]
    assert "nothing-changed" not in answer.headers["location"]
    assert f"{TEXT}</textarea>" in (await admin.get(path)).text


class Creation(NamedTuple):
    """A form that makes something: its page, where it is sent, its fields, and where the secret of
    what it made is renewed."""

    page: str
    to: str
    fields: dict[str, str]
    renewal: str = ""


def creations(base: str) -> list[Creation]:
    """The forms of an environment that make something."""
    key = KEY | ({"type": "test"} if base else {})
    made = [
        ("/keys", "/keys", key, "/keys/rotate"),
        ("/clients/new", "/clients/new", CLIENT, "/clients/secret"),
        ("/webhooks/new", "/webhooks/new", HOOK, "/webhooks/secret"),
        ("/products/new", "/products/new", PRODUCT, ""),
        ("/users/new", "/users/new", PERSON | {"password": PASSWORD}, ""),
    ]
    return [
        Creation(base + page, base + to, fields, renewal and base + renewal)
        for page, to, fields, renewal in made
    ]


INVITATION = Creation("/users/invitations", "/users/invitations", PERSON)
CREATIONS = [*creations(""), *creations("/sandbox"), INVITATION]


async def session_entries(env: Environment) -> int:
    """How many entries of the audit log are of somebody who was signed in."""
    entries = await env[Audit].page(limit=99)
    return sum(entry.credential == "session" and entry.user_id is not None for entry in entries)


class Refusal(NamedTuple):
    """A form whose every field is faulty: its path, what is sent, and what each fault says."""

    path: str
    sent: dict[str, Any]
    told: dict[str, str]
    role: str = "admin"


EMPTY = "Must not be empty."
BAD_PERSON = {"name": "", "email": "nobody", "role": "king", "plan": "gold"}
BAD_PERSON_TOLD = {
    "name": EMPTY,
    "email": "Must be a valid e-mail address, such as ada@example.com.",
    "role": "Must be one of",
    "plan": "Must be one of",
}
BAD_PRODUCT = PRODUCT | {
    "name": " ",
    "category": "",
    "price": "1,234",
    "currency": "XXQ",
    "stock_quantity": "-1",
    "image_1_url": "javascript:alert(1)",
    "image_2_url": "",
    "image_2_alt": "Without an address",
    "metadata_1_name": "colour",
    "metadata_1_value": "brass",
    "metadata_2_name": "",
    "metadata_2_value": "Without a name",
    "metadata_3_name": "colour",
    "metadata_3_value": "",
}
BAD_PRODUCT_TOLD = {
    "name": "",
    "category": EMPTY,
    "price": "1234 or 1.2340",
    "currency": "",
    "stock_quantity": "Must be from 0 to 2147483647.",
    "image_1_url": "",
    "image_2_url": "",
    "metadata_2_name": "",
    "metadata_3_name": "Is used twice",
}
BAD_URIS = "https://one.test/#x\r\nhttps://two.test/\r\nftp://three.test/"
BAD_NETWORKS = "10.0.0.0/8\n10.0.0.1/8\n2001:db8::1\nthe office"
BAD_KEY = {"name": "", "networks": BAD_NETWORKS, "expiry": "2d"}
BAD_KEY_TOLD = {
    "name": EMPTY,
    "networks": "“10.0.0.1/8” must be an address, or a network",
    "expiry": "Must be one of",
}
BAD_HOOK = {"url": "https://10.0.0.1/in", "description": "x" * 201}
BAD_HOOK_TOLD = {
    "url": "10.0.0.1",
    "types": "Must have at least one.",
    "description": "Must be at most 200 characters long.",
}
GUESSED = "guessed first"
REFUSALS = [
    Refusal(
        "/clients/new",
        {"name": "", "kind": "", "redirect_uris": BAD_URIS, "scopes": "read:users"},
        {
            "name": "Must be 1 to 100 characters long.",
            "kind": "",
            "redirect_uris": "https://one.test/#x must have no fragment",
        },
    ),
    Refusal("/webhooks/new", BAD_HOOK, BAD_HOOK_TOLD),
    Refusal("/webhooks/1/edit", BAD_HOOK, BAD_HOOK_TOLD),
    Refusal("/users/new", BAD_PERSON | {"password": "weak"}, BAD_PERSON_TOLD | {"password": ""}),
    Refusal("/users/{ada}", BAD_PERSON, BAD_PERSON_TOLD),
    Refusal("/users/invitations", BAD_PERSON | {"name": "N"}, BAD_PERSON_TOLD | {"name": ""}),
    Refusal(
        "/sandbox/products/new",
        BAD_PRODUCT | {"status": "gone", "once": "x"},
        BAD_PRODUCT_TOLD | {"status": ""},
        "editor",
    ),
    Refusal("/products/1/edit", BAD_PRODUCT, BAD_PRODUCT_TOLD, "editor"),
    Refusal(
        "/keys",
        {**BAD_KEY, "type": "read", "scopes": "write:products"},
        BAD_KEY_TOLD | {"scopes": ""},
        "editor",
    ),
    Refusal("/keys", KEY | {"type": "test"}, {"type": "Must be one of"}, "viewer"),
    Refusal(
        "/email",
        {"email": EMAIL, "current_password": ""},
        {"email": "", "current_password": EMPTY},
        "viewer",
    ),
    Refusal(
        "/security/app",
        {"name": "", "otp": "12", "secret": "{secret}"},
        {"name": EMPTY, "otp": ""},
        "viewer",
    ),
    Refusal(
        "/password",
        {"current_password": PASSWORD, "password": "Hello-Lovelace-1"},
        {"current_password": "Enter your password again.", "password": GUESSED},
        "viewer",
    ),
    Refusal(
        "/invitation?token={invited}",
        {"token": "{invited}", "name": "", "password": "Grace-1952"},
        {"name": EMPTY, "password": GUESSED},
    ),
    *(
        Refusal(
            "/reset?token={reset}",
            {"token": "{reset}", "password": guessed},
            {"password": told},
        )
        for guessed, told in (("Hello-Hopper-1", GUESSED), ("weak", ""))
    ),
    Refusal("/sign-in", {"email": "", "password": ""}, {"email": EMPTY, "password": EMPTY}),
    Refusal("/forgot", {"email": "ada lovelace@example"}, {"email": BAD_PERSON_TOLD["email"]}),
    Refusal("/sign-up", {"email": "a@other.com"}, {"email": "at example.com"}),
]


CHOICES = ("role", "plan", "kind", "type", "expiry", "status", "currency", "token")
"""Fields that show one of their choices instead of what was sent."""


async def places(api: Api, admin: Visitor, user_id: int) -> dict[str, str]:
    """What stands for the names in `REFUSALS`."""
    api.live.sign_up_role = "viewer"
    api.live.settings = replace(api.live.settings, sign_up_domains=("example.com",))
    ada = await api.account(name="Grace Hopper")
    await api.product(name="Lamp")
    await admin.post("/webhooks/new", **HOOK)
    invited = await invite(
        api.live, email="grace@example.com", name="", role="viewer", plan="free",
        handed_over=True, by=OPERATOR,
    )  # fmt: skip
    reset = await give_reset(api.live, ada.id, OPERATOR)
    return {
        "ada": str(ada.id),
        "invited": invited.link.partition("token=")[2],
        "reset": reset.link.partition("token=")[2],
        "secret": offer_authenticator(api.live, user_id).sealed,
    }


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.path)
async def test_refused_form_names_every_fault_keeps_what_was_typed_and_changes_nothing(
    api: Api, refusal: Refusal
) -> None:
    _, admin = await signed_in(api, "admin")
    user, somebody = await signed_in(api, refusal.role, name="Ada Lovelace", email=EMAIL)
    names = await places(api, admin, user.id)
    path = refusal.path.format(**names)
    sent = {
        name: value.format(**names) if isinstance(value, str) else value
        for name, value in refusal.sent.items()
    }
    async with api.unchanged():
        page = await somebody.post(path, **sent)
    assert page.status_code == 422, page.text
    found = {name: text for name, text in faults(page).items() if text}
    assert found.keys() == refusal.told.keys(), found
    for name, words in refusal.told.items():
        assert words in found[name]
    assert said(page) == "Correct the fields marked below."
    assert "<title>Error: " in page.text
    (focused,) = re.findall("<[^>]* autofocus>", page.text)
    field = re.search(r'id="([a-z_]+)', focused)
    assert field, focused
    assert field[1] in found
    text = unescape(page.text)
    for name, value in sent.items():
        typed = value if isinstance(value, str) else " ".join(value)
        if "password" in name:
            assert not typed or f'"{typed}"' not in text
        elif typed and name not in CHOICES:
            assert typed.replace("\r\n", "\n") in text, name


@pytest.mark.parametrize(
    ("path", "sent"),
    [("/keys", KEY | {"scopes": "admin"}), ("/webhooks/new", HOOK | {"types": "ping"})],
    ids=str,
)
async def test_choice_that_the_page_does_not_offer_is_a_bad_request(
    api: Api, path: str, sent: dict[str, str]
) -> None:
    _, admin = await signed_in(api, "editor" if path == "/keys" else "admin")
    async with api.unchanged():
        assert (await admin.post(path, **sent)).status_code == 400


@pytest.mark.parametrize("made", CREATIONS, ids=lambda made: made.to)
async def test_form_sent_three_times_is_carried_out_once_and_leads_to_one_page(
    api: Api, made: Creation
) -> None:
    _, admin = await signed_in(api, "admin")
    env = api.sandbox if made.to.startswith("/sandbox") else api.live
    forms = [(made.page, made.to, made.fields)]
    if made.renewal:
        forms.append((f"{made.renewal}?id=1", made.renewal, {"id": "1"}))
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
