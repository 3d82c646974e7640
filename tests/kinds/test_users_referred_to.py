"""Records that refer to users, of whom some are deleted."""

from pathlib import Path

import pytest

from driving import Api, Caller
from portico.core.audit import OPERATOR
from portico.core.users import User
from portico.features.access.rules import KeyType
from portico.features.people.mirrors import mirror_of
from portico.features.people.storage import Users

DESKS = """
from portico.kinds import Kind, Record, reference, text

class Desk(Record):
    name: str = text(1, 40)
    owner_id: int | None = reference("users", optional=True, fixed=True, on_delete={})

{} = Kind(Desk, one="{}", many="{}", readers=["editor"], writers=["editor"])
"""

RULE = """

@ruled.before_change
async def broken(change, before, after):
    if before is not None:
        raise KeyError("a fault of the rule")
"""


@pytest.fixture
def environ(environ: dict[str, str], tmp_path: Path) -> dict[str, str]:
    directory = tmp_path / "referring"
    directory.mkdir()
    for many, way in (("kept", "None"), ("cleared", '"clear"'), ("gone", '"delete"')):
        (directory / f"{many}.py").write_text(DESKS.format(way, many, f"one-{many}", many))
    ruled = DESKS.format('"delete"', "ruled", "one-ruled", "ruled") + RULE
    (directory / "ruled.py").write_text(ruled)
    return {**environ, "PORTICO_KINDS": str(directory)}


async def left(caller: Caller) -> dict[str, int | None]:
    """The owner of each desk."""
    found = {}
    for many in ("kept", "cleared", "gone"):
        for one in (await caller.get(f"/{many}")).json()["data"]:
            found[many] = one["owner_id"]
    return found


async def desks_of(caller: Caller, user: User) -> None:
    """A desk of each kind."""
    for many in ("kept", "cleared", "gone"):
        answer = await caller.post(f"/{many}", json={"name": "d", "owner_id": user.id})
        assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("key_type", ["live", "test"])
async def test_user_that_records_refer_to_is_deleted_as_each_reference_says(
    api: Api, key_type: KeyType
) -> None:
    admin = await api.caller("admin", key_type=key_type)
    body = {"name": "Ada", "email": "ada@example.com", "password": "Correct-horse-1"}
    answer = await admin.post("/users", json=body)
    user = (api.live if key_type == "live" else api.sandbox)[Users]
    owner = await user.get(answer.json()["data"]["id"])
    assert owner is not None
    await desks_of(admin, owner)
    refused = await admin.delete(f"/users/{owner.id}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "CONFLICT")
    assert await left(admin) == dict.fromkeys(("kept", "cleared", "gone"), owner.id)
    await admin.delete("/kept/1")
    assert (await admin.delete(f"/users/{owner.id}")).status_code == 204
    assert await left(admin) == {"cleared": None}


async def test_mirror_of_a_deleted_account_goes_whatever_refers_to_it(api: Api) -> None:
    admin, tester = await api.caller("admin"), await api.caller("admin", key_type="test")
    account = await api.account("editor")
    mirror = await mirror_of(api.live, account, OPERATOR)
    await desks_of(tester, mirror)
    await tester.delete("/kept/1")
    assert (await admin.delete(f"/users/{account.id}")).status_code == 204
    assert await left(tester) == {"cleared": None}
    other = await api.account("editor")
    mirror = await mirror_of(api.live, other, OPERATOR)
    await desks_of(tester, mirror)
    assert (await admin.delete(f"/users/{other.id}")).status_code == 204
    assert await api.sandbox[Users].get(mirror.id) is None


async def test_mirror_of_a_deleted_account_goes_although_a_rule_fails(api: Api) -> None:
    admin, tester = await api.caller("admin"), await api.caller("admin", key_type="test")
    account = await api.account("editor")
    mirror = await mirror_of(api.live, account, OPERATOR)
    answer = await tester.post("/ruled", json={"name": "d", "owner_id": mirror.id})
    assert answer.status_code == 201, answer.text
    assert (await admin.delete(f"/users/{account.id}")).status_code == 204
    assert await api.sandbox[Users].get(mirror.id) is None
