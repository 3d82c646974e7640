"""The rules of a product's values, and how its status changes."""

from itertools import product

import pytest

from portico.features.catalogue.products import PRODUCTS
from portico.features.catalogue.rules import STATUSES
from portico.resource.notes import MOST_IDS, RecordsImported

ALLOWED = {
    ("draft", "active"),
    ("draft", "archived"),
    ("active", "archived"),
    ("archived", "active"),
}


@pytest.mark.parametrize(("old", "new"), [*product(STATUSES, repeat=2)])
def test_every_change_of_status_is_decided(old: str, new: str) -> None:
    (status,) = PRODUCTS.states
    allowed = old == new or (old, new) in ALLOWED
    assert status.follow(old, new) == (None if allowed else f"cannot change from {old} to {new}")


def test_an_import_names_the_lowest_10000_ids_of_what_is_new_and_of_what_it_changed() -> None:
    batches = [range(start, start + 4_000) for start in (12_000, 8_000, 4_000, 0)]
    new, *more = [RecordsImported.of(batch, ()) for batch in batches]
    for one in more:
        new = new.plus(one)
    assert (new.inserted, new.updated, new.first_id, new.last_id) == (16_000, 0, 0, 15_999)
    assert (MOST_IDS, new.inserted_ids, new.updated_ids) == (10_000, [*range(10_000)], [])
    whole = RecordsImported.of((), [*reversed(range(16_000))])
    assert (whole.updated, whole.updated_ids) == (16_000, [*range(10_000)])
