"""Small rows of a file may change large products: how many at once depends on these too."""

import json

import pytest

from driving import Api
from portico.core.audit import OPERATOR
from portico.features.catalogue.imports import SMALL, check_in_batches, store_in_batches
from portico.features.catalogue.rules import FileRow
from portico.features.catalogue.storage import Products

THIRD = json.dumps({"large": "x" * (SMALL.size // 3)})


async def made(api: Api, count: int) -> list[int]:
    """The ids of new products, of which three are as much as a batch may be."""
    product = await api.product(metadata=THIRD)
    async with api.live.db.transaction() as tx:
        return [*await api.live[Products].insert_many(tx, [product] * count)]


@pytest.mark.parametrize("stored", [False, True])
async def test_a_batch_ends_when_the_products_that_it_changes_are_large(
    api: Api, *, stored: bool
) -> None:
    rows = [
        FileRow(line, 10 * line, {"stock_quantity": 7}, [], number)
        for line, number in enumerate(await made(api, 7), 1)
    ]
    outcomes = (
        store_in_batches(api.live, rows, OPERATOR, SMALL)
        if stored
        else check_in_batches(api.live, rows, SMALL)
    )
    assert [(one.updated, one.line) async for one in outcomes] == [(3, 3), (3, 6), (1, 7)]


async def test_rows_of_missing_products_count_their_own_size(api: Api) -> None:
    rows = [FileRow(line, 10 * line, {"stock_quantity": 7}, [], 10**6) for line in range(1, 251)]
    outcomes = [one async for one in check_in_batches(api.live, rows, SMALL)]
    assert [len(one.refused) for one in outcomes] == [250]
