"""Lists that are kept on PostgreSQL, where other hosts write too (decision 0040)."""

from collections.abc import AsyncIterator

import pytest

from driving import Api
from kept_lists import LISTS, counted, shown
from portico.app import Portico
from portico.core.audit import OPERATOR
from portico.environment import Environment
from portico.features.catalogue.products import PRODUCTS
from portico.resource.changes import create_record, delete_record, unchecked


@pytest.fixture(params=["postgres+redis"])
def environ(environ: dict[str, str]) -> dict[str, str]:
    """The engine on which it is so."""
    return environ


@pytest.fixture
async def elsewhere(api: Api) -> AsyncIterator[Environment]:
    """The live environment as another host has it."""
    mine = api.portico
    other = Portico(
        mine.settings,
        clock=api.clock,
        passwords=mine.passwords,
        sender=mine.sender,
        fetcher=mine.fetcher,
    )
    await other.connect()
    yield other.live
    for environment in other.environments:
        await environment.db.close()


@pytest.mark.parametrize("path", [*LISTS, "/products?page=2&limit=1"])
async def test_a_list_is_kept_until_anybody_changes_a_product(
    api: Api, elsewhere: Environment, path: str
) -> None:
    reader, other = await api.caller("viewer"), await api.caller("admin")
    for _ in range(2):
        lamp = await api.product()
    async with counted(api, misses=1):
        first = await reader.get(path)
    async with counted(api, hits=2):
        answers = [await reader.get(path), await other.get(path)]
    assert {answer.content for answer in answers} == {first.content}
    tag = first.headers["etag"]
    async with counted(api, hits=1):
        assert (await reader.get(path, headers={"if-none-match": tag})).status_code == 304
    await delete_record(elsewhere, PRODUCTS, lamp.id, unchecked, OPERATOR)
    async with counted(api, misses=1):
        after = await reader.get(path, headers={"if-none-match": tag})
    assert after.status_code == 200
    assert after.json()["pagination"]["total_items"] == 1


async def test_unrelated_changes_elsewhere_drop_no_kept_list(
    api: Api, elsewhere: Environment
) -> None:
    reader = await api.caller("viewer")
    await api.product()
    await shown(reader, "/products")
    await api.account()
    values = {"name": "Draft", "category": "light", "price": 1, "status": "draft"}
    await create_record(elsewhere, PRODUCTS, values, OPERATOR)
    async with counted(api, hits=1):
        await shown(reader, "/products")
