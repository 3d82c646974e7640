"""Changes of one resource at the same time, on both engines (decisions §7)."""

import asyncio
from collections import Counter

import pytest

from driving import Api, refused
from kinds import CHANGEABLE, KINDS, create


@pytest.mark.parametrize("path", CHANGEABLE)
async def test_one_of_ten_concurrent_changes_with_one_tag_passes(api: Api, path: str) -> None:
    admin = await api.caller("admin")
    where = await create(admin, path)
    headers = {"if-match": (await admin.get(where)).headers["etag"]}
    field = "description" if path == "/webhooks" else "name"
    answers = await asyncio.gather(
        *(admin.patch(where, json={field: f"No. {n}"}, headers=headers) for n in range(10))
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 9
    (winner,) = [answer for answer in answers if answer.status_code == 200]
    assert (await admin.get(where)).json() == winner.json()


@pytest.mark.parametrize("path", CHANGEABLE)
async def test_concurrent_changes_of_different_fields_lose_nothing(api: Api, path: str) -> None:
    admin = await api.caller("admin")
    where, changes = await create(admin, path), KINDS[path].changes
    answers = await asyncio.gather(*(admin.patch(where, json=change) for change in changes))
    assert [answer.status_code for answer in answers] == [200] * len(changes)
    data = (await admin.get(where)).json()["data"]
    for field, value in (pair for change in changes for pair in change.items()):
        merged = data[field] | value if field == "preferences" else value
        assert data[field] == merged, field


@pytest.mark.parametrize("path", CHANGEABLE)
async def test_a_deletion_beside_changes_wins(api: Api, path: str) -> None:
    admin = await api.caller("admin")
    change = KINDS[path].changes[0]
    for number in range(3):
        where = await create(admin, path, number)
        answers = await asyncio.gather(
            *(admin.patch(where, json=change) for _ in range(5)),
            admin.delete(where),
            *(admin.patch(where, json=change) for _ in range(5)),
        )
        counts = Counter(answer.status_code for answer in answers)
        assert counts[204] == 1
        assert counts[200] + counts[404] == 10, counts
        refused(await admin.get(where), 404, "RESOURCE_NOT_FOUND")
