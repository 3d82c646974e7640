"""What other systems manage by the API: accounts and plans."""

from typing import Any
from urllib.parse import quote

import pytest

from driving import Api, Caller, refused
from owned import set_plan
from portico.core.audit import OPERATOR
from portico.core.ids import MAX_ID
from portico.core.oauth import AuthorizationRefused, Client
from portico.core.secrets import digest
from portico.features.access.clients import authenticate_client
from portico.features.access.storage import Clients
from portico.features.events.audit import Audit
from portico.features.people.invitations import accept
from portico.features.people.mirrors import mirror_of
from portico.features.people.rules import Invitation
from portico.features.people.storage import Invitations
from second_factor import factored
from signing_in import PASSWORD

AT = "2026-03-15T12:00:00.000Z"
NEW = {
    "plan": "enterprise",
    "suspended": False,
    "suspended_at": None,
    "external_id": None,
    "metadata": {},
    "last_login_at": None,
}


def of(user_id: int) -> str:
    return f"/users/{user_id}/account"


async def told(caller: Caller) -> list[dict[str, Any]]:
    answer = await caller.get("/events", params={"type": "account.*"})
    events: list[dict[str, Any]] = answer.json()["data"]
    return events


async def test_an_account_is_read_by_its_user_and_by_admins_alone(api: Api) -> None:
    viewer, other = await api.caller("viewer", plan="enterprise"), await api.caller("editor")
    whole = NEW | {"id": viewer.user.id, "second_factor": False}
    for caller in (viewer, await api.caller("admin")):
        assert (await caller.get(of(viewer.user.id))).json() == {"data": whole}
    refused(await other.get(of(viewer.user.id)), 403, "PERMISSION_DENIED")
    admin = await api.caller("admin")
    refused(await admin.get(of(10**6)), 404)
    protected = await factored(api)
    assert (await admin.get(of(protected.id))).json()["data"]["second_factor"] is True


CHANGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"plan": "pro"}, {"plan": "enterprise"}),
    ({"suspended": True}, {"suspended": False, "suspended_at": None}),
    ({"external_id": " crm-4711 "}, {"external_id": None}),
    ({"metadata": {"colour": "brass"}}, {"metadata": {}}),
    (
        {"plan": "free", "external_id": "a", "metadata": {"a": ""}},
        {"plan": "enterprise", "external_id": None, "metadata": {}},
    ),
]


async def test_a_change_of_an_account_is_answered_stored_and_told_once(api: Api) -> None:
    admin = await api.caller("admin")
    for number, (change, previous) in enumerate(CHANGES, 1):
        user = await api.account(plan="enterprise")
        answer = await admin.patch(of(user.id), json=change)
        read = await admin.get(of(user.id))
        assert (answer.status_code, answer.json()) == (200, read.json())
        assert answer.headers["etag"] == read.headers["etag"]
        stored = {k: v.strip() if isinstance(v, str) else v for k, v in change.items()}
        if change.get("suspended"):
            stored["suspended_at"] = AT
        data = NEW | {"id": user.id} | stored
        assert read.json()["data"] == data | {"second_factor": False}
        event = (await told(admin))[-1]
        assert (event["data"], event["previous"]) == (data, previous)
        assert (await admin.patch(of(user.id), json=change)).json() == read.json()
        assert len(await told(admin)) == number


async def test_a_change_by_a_command_is_told_too(api: Api) -> None:
    admin, user = await api.caller("admin"), await api.account(plan="enterprise")
    await set_plan(api.live, user.email, "pro", OPERATOR)
    assert [event["previous"] for event in await told(admin)] == [{"plan": "enterprise"}]


async def test_a_suspended_account_is_locked_out_until_it_is_resumed(api: Api) -> None:
    admin, viewer = await api.caller("admin"), await api.caller("viewer")
    for suspended, status in ((True, 401), (False, 200)):
        await admin.patch(of(viewer.user.id), json={"suspended": suspended})
        assert (await viewer.get("/users/me")).status_code == status
    assert [event["previous"] for event in await told(admin)] == [
        {"suspended": False, "suspended_at": None},
        {"suspended": True, "suspended_at": AT},
    ]


REFUSALS: dict[str, tuple[dict[str, Any], int, list[str]]] = {
    "an unknown plan": ({"plan": "gold"}, 422, ["plan"]),
    "no plan": ({"plan": None}, 400, ["plan"]),
    "a long external_id": ({"external_id": "x" * 201}, 422, ["external_id"]),
    "an empty external_id": ({"external_id": " "}, 422, ["external_id"]),
    "another's external_id": ({"external_id": "taken"}, 409, ["external_id"]),
    "metadata as a text": ({"metadata": "x"}, 400, ["metadata"]),
    "what is read-only": ({"second_factor": True}, 400, ["second_factor"]),
    "several faults": ({"plan": "gold", "external_id": ""}, 422, ["plan", "external_id"]),
}


async def test_a_refused_change_of_an_account_changes_nothing(api: Api) -> None:
    admin, user = await api.caller("admin"), await api.account()
    await api.account(external_id="taken")
    async with api.unchanged():
        for why, (change, status, fields) in REFUSALS.items():
            answer = await admin.patch(of(user.id), json={"suspended": True} | change)
            assert sorted(refused(answer, status)) == sorted(fields), why


async def test_the_last_admin_cannot_be_suspended_and_no_admin_themselves(api: Api) -> None:
    admin = await api.caller("admin", plan="enterprise")
    own = of(admin.user.id)
    async with api.unchanged():
        refused(await admin.patch(own, json={"suspended": True}), 409, "CONFLICT")
    await api.account("admin")
    async with api.unchanged():
        for change in ({"suspended": True}, {"plan": "pro"}):
            refused(await admin.patch(own, json=change), 403, "PERMISSION_DENIED")
    assert (await admin.patch(own, json={"external_id": "me"})).status_code == 200


async def test_a_change_of_another_state_than_was_read_is_412(api: Api) -> None:
    admin, user = await api.caller("admin"), await api.account()
    tag = (await admin.get(of(user.id))).headers["etag"]
    for status in (200, 412):
        change = {"external_id": f"seen {status}"}
        answer = await admin.patch(of(user.id), json=change, headers={"if-match": tag})
        assert answer.status_code == status
    assert (await admin.get(of(user.id))).json()["data"]["external_id"] == "seen 200"


async def test_a_mirror_follows_its_account_and_has_no_external_id(api: Api) -> None:
    admin, account = await api.caller("admin"), await api.account(external_id="crm-1")
    mirror = await mirror_of(api.live, account, OPERATOR)
    await admin.patch(of(account.id), json={"plan": "pro", "suspended": True})
    there = await api.caller("admin", "test")
    data = (await there.get(of(mirror.id))).json()["data"]
    assert (data["plan"], data["suspended"], data["external_id"]) == ("pro", True, None)
    refused(await there.patch(of(mirror.id), json={"suspended": False}), 409, "CONFLICT")


async def test_a_user_is_found_by_the_external_id_by_admins_alone(api: Api) -> None:
    admin, user = await api.caller("admin"), await api.account("editor", external_id="crm 1")
    for query, found in (
        ({"external_id": "crm 1"}, [user.id]),
        ({"external_id": "crm 1", "role": "editor"}, [user.id]),
        ({"external_id": "crm 1", "role": "viewer"}, []),
        ({"external_id": "crm"}, []),
    ):
        body = (await admin.get("/users", params=query)).json()
        assert [one["id"] for one in body["data"]] == found
        assert body["pagination"]["total_items"] == len(found)
    asked = {"external_id": "crm 1"}
    refused(await (await api.caller("viewer")).get("/users", params=asked), 403)
    await admin.patch(of(user.id), json={"external_id": None})
    assert (await admin.get("/users", params=asked)).json()["data"] == []


@pytest.mark.one_engine
async def test_plans_are_those_of_the_settings(api: Api) -> None:
    plans = (await (await api.caller("admin")).get("/plans")).json()["data"]
    assert [plan["name"] for plan in plans] == list(api.settings.plans)
    assert {"name": "pro", "per_minute": 100, "per_day": 10_000, "per_month": None} in plans


INVITED = {"email": "Ada@example.com", "name": "Ada", "role": "editor", "plan": "pro"}


async def test_an_invitation_is_shown_with_its_link_once_until_it_is_accepted(api: Api) -> None:
    admin, key = await api.caller("admin"), {"Idempotency-Key": "one"}
    answer = await admin.post("/invitations", json=INVITED, headers=key)
    made = answer.json()["data"]
    token = made.pop("link").partition("?token=")[2]
    one = f"/invitations/{made['id']}"
    assert answer.headers["location"].endswith(f"/v1{one}")
    assert made == INVITED | {
        "id": made["id"],
        "inviter_id": admin.user.id,
        "created_at": AT,
        "expires_at": "2026-03-22T12:00:00.000Z",
    }
    again = await admin.post("/invitations", json=INVITED, headers=key)
    assert (again.status_code, again.json()["data"]) == (201, made)
    assert (await admin.get(one)).json() == {"data": made}
    assert (await admin.get("/invitations")).json()["data"] == [made]
    await accept(api.live, token, name="Ada King", password=PASSWORD, by=OPERATOR)
    refused(await admin.get(one), 404)
    refused(await admin.post("/invitations", json=INVITED), 409, "DUPLICATE_RESOURCE")
    found = (await admin.get("/users", params={"sort": "email", "role": "editor"})).json()["data"]
    assert [(user["name"], user["role"]) for user in found] == [("Ada King", "editor")]


async def test_a_renewed_invitation_has_another_link_and_a_revoked_one_none(api: Api) -> None:
    admin = await api.caller("admin")
    made = (await admin.post("/invitations", json=INVITED)).json()["data"]
    one = f"/invitations/{made['id']}"
    api.clock.advance(seconds=8 * 86_400)
    renewed = (await admin.post(f"{one}/renew")).json()["data"]
    assert (renewed["id"], renewed["expires_at"]) == (made["id"], "2026-03-30T12:00:00.000Z")
    for link, works in ((made["link"], False), (renewed["link"], True)):
        token = link.partition("?token=")[2]
        assert (await api.live[Invitations].by_hash(digest(token)) is not None) == works
    refused(await admin.delete(one, headers={"if-match": '"old"'}), 412)
    for status in (204, 404):
        assert (await admin.delete(one)).status_code == status
    refused(await admin.post(f"{one}/renew"), 404)


@pytest.mark.one_engine
async def test_a_faulty_invitation_is_refused(api: Api) -> None:
    admin = await api.caller("admin")
    async with api.unchanged():
        for change, status in (
            ({"email": "nobody"}, 422),
            ({"role": "owner"}, 422),
            ({"plan": "gold"}, 422),
            ({"name": "A"}, 422),
            ({"email": None}, 400),
        ):
            faults = refused(await admin.post("/invitations", json=INVITED | change), status)
            assert faults.keys() == change.keys()


@pytest.mark.one_engine
async def test_the_sandbox_invites_nobody(api: Api) -> None:
    admin = await api.caller("admin", "test")
    async with api.unchanged():
        refused(await admin.post("/invitations", json=INVITED), 409, "CONFLICT")


async def test_a_sign_up_is_no_invitation(api: Api) -> None:
    admin = await api.caller("admin")
    async with api.live.db.transaction() as tx:
        values = Invitation(0, "a@x.com", "", "viewer", "free", True, False, 0, MAX_ID)  # noqa: FBT003 - a row
        signed_up = await api.live[Invitations].put(tx, b"digest", values)
    assert signed_up is not None
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/renew")):
        refused(await admin.request(method, f"/invitations/{signed_up.id}{path}"), 404)
    assert (await admin.get("/invitations")).json()["pagination"]["total_items"] == 0


CLIENT: dict[str, Any] = {
    "name": "Shop",
    "redirect_uris": ["https://shop.example.com/callback"],
    "scopes": ["read:products"],
}


@pytest.mark.parametrize("public", [False, True])
async def test_a_client_is_registered_changed_and_deleted(api: Api, *, public: bool) -> None:
    admin, key = await api.caller("admin"), {"Idempotency-Key": "one"}
    answer = await admin.post("/clients", json=CLIENT | {"public": public}, headers=key)
    made = answer.json()["data"]
    secret, one = made.pop("client_secret", None), f"/clients/{made['client_id']}"
    assert (secret is None) == public
    assert answer.headers["location"].endswith(f"/v1{one}")
    facts = {"client_id": made["client_id"], "created_at": AT, "owner_id": admin.user.id}
    facts |= {"first_party": False, "grants": [], "service": None, "post_logout_redirect_uris": []}
    facts |= {"backchannel_logout_uri": None, "jwks": None, "jwks_uri": None}
    assert made == CLIENT | facts | {"public": public}
    again = await admin.post("/clients", json=CLIENT | {"public": public}, headers=key)
    assert (again.status_code, again.json()["data"]) == (201, made)
    assert await authenticate_client(api.live, made["client_id"], secret)
    tag = (await admin.get(one)).headers["etag"]
    for status in (200, 412):
        change = {"name": f"Shop {status}"}
        assert (
            await admin.patch(one, json=change, headers={"if-match": tag})
        ).status_code == status
    ends = {"post_logout_redirect_uris": ["https://shop.example.com/goodbye"], "first_party": True}
    ends |= {"backchannel_logout_uri": "https://shop.example.com/ended"}
    changed = await admin.patch(one, json=ends | {"scopes": ["write:products", "read:products"]})
    stored = made | ends | {"name": "Shop 200", "scopes": ["read:products", "write:products"]}
    assert changed.json() == {"data": stored}
    assert (await admin.get("/clients")).json()["data"] == [stored]
    refused(await admin.delete(one, headers={"if-match": tag}), 412)
    for status in (204, 404):
        assert (await admin.delete(one)).status_code == status


async def test_a_rotated_secret_is_shown_once_and_the_old_one_is_void(api: Api) -> None:
    admin, key = await api.caller("admin"), {"Idempotency-Key": "one"}
    made = (await admin.post("/clients", json=CLIENT)).json()["data"]
    rotate = f"/clients/{made['client_id']}/rotate-secret"
    rotated = (await admin.post(rotate, headers=key)).json()["data"]
    assert rotated.keys() == made.keys()
    assert "client_secret" not in (await admin.post(rotate, headers=key)).json()["data"]
    assert await authenticate_client(api.live, made["client_id"], rotated["client_secret"])
    with pytest.raises(AuthorizationRefused):
        await authenticate_client(api.live, made["client_id"], made["client_secret"])
    public = (await admin.post("/clients", json=CLIENT | {"public": True})).json()["data"]
    async with api.unchanged():
        refused(await admin.post(f"/clients/{public['client_id']}/rotate-secret"), 422)


FAULTY_CLIENTS: list[tuple[dict[str, Any], int, str]] = [
    ({"name": " "}, 422, "name"),
    ({"redirect_uris": []}, 422, "redirect_uris"),
    ({"redirect_uris": ["http://shop.example.com/"]}, 422, "redirect_uris.0"),
    ({"post_logout_redirect_uris": ["http://a.example/"]}, 422, "post_logout_redirect_uris.0"),
    ({"first_party": None}, 400, "first_party"),
    ({"scopes": ["read:nothing"]}, 422, "scopes.0"),
    ({"scopes": "read:products"}, 400, "scopes"),
    ({"grants": ["password"]}, 422, "grants.0"),
    ({"service": "nothing"}, 422, "service"),
    ({"client_id": "mine"}, 400, "client_id"),
]


@pytest.mark.one_engine
async def test_a_faulty_client_is_refused(api: Api) -> None:
    admin = await api.caller("admin")
    made = (await admin.post("/clients", json=CLIENT)).json()["data"]
    async with api.unchanged():
        for change, status, field in FAULTY_CLIENTS:
            for answer in (
                await admin.post("/clients", json=CLIENT | change),
                await admin.patch(f"/clients/{made['client_id']}", json=change),
            ):
                assert list(refused(answer, status)) == [field], change


@pytest.mark.one_engine
async def test_a_client_for_programs_needs_no_redirect_uri(api: Api) -> None:
    admin = await api.caller("admin")
    new = {"name": "Robot", "grants": ["client_credentials"], "scopes": ["read:products"]}
    made = (await admin.post("/clients", json=new)).json()["data"]
    assert (made["grants"], made["redirect_uris"]) == (["client_credentials"], [])
    one = f"/clients/{made['client_id']}"
    changed = await admin.patch(one, json={"scopes": []})
    assert (changed.json()["data"]["grants"], changed.json()["data"]["scopes"]) == (
        new["grants"],
        [],
    )
    refused(await admin.post("/clients", json=new | {"public": True}), 422)
    async with api.unchanged():
        faults = refused(await admin.patch(one, json={"grants": []}), 422)
    assert list(faults) == ["redirect_uris"], "it would have nothing left to sign in by"


@pytest.mark.one_engine
async def test_client_becomes_first_party_by_the_rule_of_registration(api: Api) -> None:
    admin = await api.caller("admin")
    native = CLIENT | {"public": True, "redirect_uris": ["http://127.0.0.1/callback"]}
    one = f"/clients/{(await admin.post('/clients', json=native)).json()['data']['client_id']}"
    web = {"redirect_uris": CLIENT["redirect_uris"]}
    for change in ({"first_party": True}, {"grants": ["client_credentials"]}):
        async with api.unchanged():
            refused(await admin.patch(one, json=change), 422)
    assert (await admin.patch(one, json=web | {"first_party": True})).status_code == 200
    async with api.unchanged():
        refused(await admin.patch(one, json={"redirect_uris": native["redirect_uris"]}), 422)


async def test_client_is_found_by_its_id_alone_which_may_be_a_url(api: Api) -> None:
    admin = await api.caller("admin")
    client_id = "https://app.example.com/a%20b/client.json?c=d"
    document = Client(
        *(0, client_id, None, None, "App", ("https://app.example.com/cb",)),
        *(frozenset({"read:products"}), api.clock()),
        origin="document",
    )
    async with api.live.db.transaction() as tx:
        await api.live[Clients].insert(tx, document)
    for none in ("17", "client_none", "client%00", "%C3%A9", "a" * 3_000):
        refused(await admin.get(f"/clients/{none}"), 404)
    one = f"/clients/{quote(client_id, safe='')}"
    assert (await admin.get(one)).json()["data"]["client_id"] == client_id
    assert (await admin.patch(one, json={"name": "Editor"})).json()["data"]["name"] == "Editor"
    refused(await admin.get(f"/clients/{quote('https://app.example.com/other', safe='')}"), 404)
    assert (await admin.put(one)).status_code == 405
    assert (await admin.delete(one)).status_code == 204
    refused(await admin.get(one), 404)


async def test_the_audit_log_is_walked_from_the_oldest_by_filters(api: Api) -> None:
    admin, other = await api.caller("admin"), await api.caller("admin")
    product = await api.product()
    for caller, price in ((admin, 5), (other, 6), (admin, 7)):
        await caller.patch(f"/products/{product.id}", json={"price": price})
    await other.patch("/users/me", json={"name": "Other Name"})
    api.clock.advance(seconds=11)
    whole = await walked(admin, limit=2)
    assert whole == sorted(whole, key=lambda entry: entry["id"])
    assert whole == await walked(admin, limit=100)
    target = f"product:{product.id}"
    for query, number in (
        ({"target": target, "action": "product.updated"}, 3),
        ({"target": target, "actor_id": other.user.id}, 1),
        ({"actor_id": other.user.id}, 2),
        ({"action": "product.updated", "actor_id": admin.user.id}, 2),
        ({"action": "nothing"}, 0),
    ):
        found = await walked(admin, limit=1, **query)
        assert len(found) == number, query
        assert all(one in whole for one in found)
    (entry,) = await walked(admin, actor_id=other.user.id, action="user.updated")
    assert entry["user"] == {"id": other.user.id, "email": other.user.email}
    assert (entry["target"], entry["target_id"]) == ("user", str(other.user.id))
    assert entry["details"] == {"fields": ["name"]}


async def walked(caller: Caller, **query: Any) -> list[dict[str, Any]]:
    """All entries of a filter, page by page."""
    entries: list[dict[str, Any]] = []
    after, more = 0, True
    while more:
        page = (await caller.get("/audit", params={**query, "after": after})).json()
        entries += page["data"]
        after, more = page["pagination"]["last_id"], page["pagination"]["has_more"]
    return entries


async def test_removed_entries_of_the_audit_log_are_gone(api: Api) -> None:
    admin = await api.caller("admin")
    async with api.live.db.transaction() as tx:
        await api.live[Audit].release(tx, 2)
    refused(await admin.get("/audit", params={"after": 1}), 410, "GONE")
    assert (await admin.get("/audit", params={"after": 2})).status_code == 200


@pytest.mark.one_engine
async def test_a_faulty_query_of_the_audit_log_is_refused(api: Api) -> None:
    admin = await api.caller("admin")
    for query in ("after=-1", "after=x", "limit=101", "actor_id=0", "target=product"):
        assert [*refused(await admin.get(f"/audit?{query}"), 400)] == [query.partition("=")[0]]
