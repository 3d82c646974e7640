"""What other systems manage by the API: accounts and plans."""

from typing import Any

import pytest

from driving import Api, Caller, refused
from portico.core.audit import OPERATOR
from portico.features.people.accounts import set_plan
from portico.features.people.mirrors import mirror_of
from second_factor import factored

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
    refused(await (await api.caller("admin")).get(of(10**6)), 404)


async def test_an_account_says_whether_it_has_a_second_factor(api: Api) -> None:
    user = await factored(api)
    answer = await (await api.caller("admin")).get(of(user.id))
    assert answer.json()["data"]["second_factor"] is True


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


@pytest.mark.parametrize(("change", "previous"), CHANGES)
async def test_a_change_of_an_account_is_answered_stored_and_told_once(
    api: Api, change: dict[str, Any], previous: dict[str, Any]
) -> None:
    admin, user = await api.caller("admin"), await api.account(plan="enterprise")
    answer = await admin.patch(of(user.id), json=change)
    read = await admin.get(of(user.id))
    assert (answer.status_code, answer.json()) == (200, read.json())
    assert answer.headers["etag"] == read.headers["etag"]
    stored = {k: v.strip() if isinstance(v, str) else v for k, v in change.items()}
    if change.get("suspended"):
        stored["suspended_at"] = AT
    data = NEW | {"id": user.id} | stored
    assert read.json()["data"] == data | {"second_factor": False}
    (event,) = await told(admin)
    assert (event["data"], event["previous"]) == (data, previous)
    assert (await admin.patch(of(user.id), json=change)).json() == read.json()
    assert len(await told(admin)) == 1


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


@pytest.mark.parametrize("why", REFUSALS)
async def test_a_refused_change_of_an_account_changes_nothing(api: Api, why: str) -> None:
    change, status, fields = REFUSALS[why]
    admin, user = await api.caller("admin"), await api.account()
    await api.account(external_id="taken")
    async with api.unchanged():
        faults = refused(await admin.patch(of(user.id), json={"suspended": True} | change), status)
    assert sorted(faults) == sorted(fields)


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


async def test_plans_are_those_of_the_settings(api: Api) -> None:
    plans = (await (await api.caller("admin")).get("/plans")).json()["data"]
    assert [plan["name"] for plan in plans] == list(api.settings.plans)
    assert {"name": "pro", "per_minute": 100, "per_day": 10_000, "per_month": None} in plans
