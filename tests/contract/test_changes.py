"""The unit of work: what holds of every change, whoever makes it and on either engine."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import urlencode

import msgspec
import pytest

from driving import Api, InProcess, challenge, json_bytes, refused
from operating import eventually
from owned import grants_of, sessions_of
from portico.change import TRIES, Change
from portico.core.audit import OPERATOR, Actor, Author
from portico.core.caller import Principal
from portico.core.errors import AuthenticationRequired, Unavailable
from portico.core.oauth import AuthorizationRefused, Client
from portico.core.scopes import ROLE_SCOPES
from portico.core.users import User
from portico.data.database import Contended
from portico.features.access.authorization import exchange_code
from portico.features.access.clients import delete_client
from portico.features.access.storage import ApiKeys, Clients
from portico.features.access.tokens import Issued
from portico.features.catalogue.products import PRODUCTS
from portico.features.catalogue.storage import Products
from portico.features.events.audit import Audit
from portico.features.people.storage import Users
from portico.features.people.users import delete_user
from portico.features.signin.rules import SignedOut
from portico.features.signin.service import sign_out_everywhere
from portico.resource.uploads import Uploads, begin_storing, discard, take_in
from portico.web.pages.site import csrf_token
from signing_in import (
    CALLBACK,
    COOKIE,
    FORM,
    client_of,
    code_of,
    session_of,
    waits,
)

DRAFTS = PRODUCTS.query(status="draft")
EVE = {"name": "Eve", "email": "eve@example.com", "password": "Analytical1"}
PRODUCT = {"name": "Lamp", "category": "light", "price": 12.5}


async def test_a_change_without_a_note_stores_nothing(api: Api) -> None:
    user = await api.account()

    async def work(change: Change) -> User:
        renamed = msgspec.structs.replace(user, name="Forgotten")
        await api.live[Users].update(change.tx, renamed)
        return renamed

    async with api.unchanged():
        assert (await api.live.change(OPERATOR, work)).name == "Forgotten"


async def test_a_contended_change_is_tried_again_and_at_last_given_up(api: Api) -> None:
    tried: list[int] = []
    before = len(await api.live[Audit].page(limit=99))

    async def work(change: Change) -> None:
        change.note(SignedOut(len(tried)))
        tried.append(change.now)
        if len(tried) < TRIES:
            raise Contended

    await api.live.change(OPERATOR, work)
    assert len(tried) == TRIES
    entry, *earlier = await api.live[Audit].page(limit=99)
    assert (entry.target_id, len(earlier)) == (str(TRIES - 1), before), "what failed left nothing"

    async def in_vain(_change: Change) -> None:
        raise Contended

    with pytest.raises(Unavailable, match="nothing was changed"):
        await api.live.change(OPERATOR, in_vain)


@pytest.mark.parametrize(("path", "body"), [("/products", PRODUCT), ("/users", EVE)])
async def test_no_answer_is_kept_for_an_account_deleted_mid_body(
    api: Api, path: str, body: dict[str, object]
) -> None:
    admin = await api.caller("admin")
    await api.account("admin", email=EVE["email"])

    async def deleted() -> None:
        await delete_user(api.live, admin.user.id, lambda _user: None, OPERATOR)

    headers = [("authorization", f"Bearer {admin.key}"), ("content-type", "application/json")]
    headers += [("idempotency-key", "order-17")]
    content = json_bytes(body)
    answer = await InProcess(api).exchange(
        "POST", f"/v1{path}", headers, content[:5], deleted, content[5:]
    )
    refused(answer, 401)
    assert challenge(answer) == 'Bearer error="invalid_token"'
    assert (await api.state())["live idempotency_keys"] == []


async def test_an_account_deleted_as_its_answer_is_kept_gets_401(api: Api) -> None:
    editor, env = await api.caller("editor"), api.live
    async with env.db.transaction() as tx:
        await env[Users].delete(tx, editor.user.id)
        headers = {"idempotency-key": "order-17"}
        posting = asyncio.create_task(editor.post("/products", json=PRODUCT, headers=headers))
        await eventually(lambda: waits(env), "the wait of the answer that is kept")
    assert (await posting).status_code == 401
    assert (await env[Products].listed(DRAFTS, 0, None)).total == 0


SANDBOX_FORMS = {
    "/keys/new": {"name": "A key", "type": "test", "expiry": "never"},
    "/clients/new": {"name": "Shop", "kind": "public", "redirect_uris": CALLBACK},
}


@pytest.mark.parametrize("path", SANDBOX_FORMS)
@pytest.mark.parametrize("how", ["ended", "demoted"])
async def test_a_session_ended_mid_form_changes_nothing_in_the_sandbox(
    api: Api, path: str, how: str
) -> None:
    admin = await api.account("admin")
    other = await api.caller("admin")
    secret = await session_of(api.live, admin)

    async def pause() -> None:
        if how == "ended":
            await sign_out_everywhere(api.live, admin.id, OPERATOR)
        else:
            await other.patch(f"/users/{admin.id}", json={"role": "viewer"})

    headers = [("cookie", f"{COOKIE}={secret}"), ("content-type", FORM)]
    form = urlencode({"csrf": csrf_token(secret), **SANDBOX_FORMS[path]}).encode()
    answer = await InProcess(api).exchange(
        "POST", f"/dashboard/sandbox{path}", headers, form[:5], pause, form[5:]
    )
    if how == "ended":
        assert answer.headers["location"].startswith("/dashboard/sign-in?")
        assert [batch async for batch in api.sandbox[ApiKeys].batches()] == []
    assert [batch async for batch in api.sandbox[Clients].batches()] == []


async def by_session(api: Api, user: User) -> Author:
    """A session of theirs."""
    await session_of(api.live, user)
    (session,) = await sessions_of(api.live, user.id, api.clock())
    principal = Principal(
        user_id=user.id,
        email=user.email,
        name=user.name,
        role=user.role,
        plan=user.plan,
        scopes=ROLE_SCOPES[user.role],
        read_only=False,
        credential="session",
        credential_id=session.id,
        expires_at=None,
    )
    return Author(Actor(user.id), principal)


@pytest.mark.parametrize("change", [begin_storing, discard])
async def test_an_ended_session_neither_stores_nor_discards_an_upload(
    api: Api, change: Callable[..., Awaitable[None]]
) -> None:
    editor = await api.account("editor")
    by = await by_session(api, editor)

    async def chunks(*, ends: bool = False) -> AsyncIterator[bytes]:
        yield json_bytes(PRODUCT)
        if ends:
            await sign_out_everywhere(api.live, editor.id, OPERATOR)
        yield b"\n"

    async def checked() -> bool:
        (upload,) = await api.live[Uploads].all()
        return upload.state == "checked"

    sent = await take_in(
        api.live, editor.id, "products", "a.ndjson", chunks(), by, updates=lambda: False
    )
    await eventually(checked, "the check")
    with pytest.raises(AuthenticationRequired):
        await take_in(
            api.live,
            editor.id,
            "products",
            "b.ndjson",
            chunks(ends=True),
            by,
            updates=lambda: False,
        )
    async with api.unchanged():
        with pytest.raises(AuthenticationRequired):
            await change(api.live, sent.id, editor.id, by)
    assert [upload.id for upload in await api.live[Uploads].all()] == [sent.id]


async def test_codes_are_exchanged_beside_the_deletion_of_their_client(api: Api) -> None:
    for _ in range(5):
        user = await api.account("viewer")
        client = (await client_of(api.live, user)).client
        codes = [await code_of(api.live, client, user) for _ in range(3)]
        done = await asyncio.gather(
            *(
                exchange_code(api.live, client, OPERATOR, code=code, redirect_uri=CALLBACK)
                for code in codes
            ),
            delete_client(api.live, client.id, by=OPERATOR),
            return_exceptions=True,
        )
        assert all(isinstance(one, Issued | Client | AuthorizationRefused) for one in done), done
        assert await grants_of(api.live, user.id, api.clock()) == []
