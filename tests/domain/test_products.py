"""The rules of a product's values, and how its status changes."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portico.core.errors import BrokenRule
from portico.core.rules import metadata_key, metadata_value
from portico.features.catalogue.products import PRODUCTS, Image
from portico.features.catalogue.rules import STATUSES
from portico.resource.inputs import reading
from portico.resource.notes import MOST_IDS, RecordsImported

FIELDS: dict[str, Any] = {**PRODUCTS.by_name, **{field.name: field for field in Image.__fields__}}
NAME, CATEGORY, DESCRIPTION, STATUS, ALT = (
    FIELDS[name].rule for name in ("name", "category", "description", "status", "alt")
)
STOCK = reading(PRODUCTS.by_name["stock_quantity"])

any_text = st.text(st.characters(exclude_categories=()))  # lone surrogates too


def test_names_are_trimmed_and_then_measured() -> None:
    assert NAME(" x ") == "x"
    assert NAME(f" {'x' * 200} ") == "x" * 200
    assert CATEGORY(f" {'x' * 100} ") == "x" * 100
    for bad in ("", "  ", "x" * 201):
        with pytest.raises(BrokenRule, match="1 to 200"):
            NAME(bad)
    for bad in ("", "  ", "x" * 101):
        with pytest.raises(BrokenRule, match="1 to 100"):
            CATEGORY(bad)


def test_a_description_may_be_empty_and_has_at_most_10000_characters() -> None:
    assert DESCRIPTION("  ") == "  "
    assert DESCRIPTION("é" * 10_000) == "é" * 10_000
    with pytest.raises(BrokenRule, match="at most 10000"):
        DESCRIPTION("x" * 10_001)


@pytest.mark.parametrize("quantity", [0, 1, 2**31 - 1])
def test_a_stock_quantity_passes(quantity: int) -> None:
    assert STOCK(str(quantity)) == quantity


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


def test_images_and_metadata_are_bounded_in_length() -> None:
    assert ALT("") == ""
    assert ALT("x" * 500) == "x" * 500
    assert metadata_key("x" * 100) == "x" * 100
    assert metadata_value("") == ""
    assert metadata_value(" " * 1_000) == " " * 1_000
    with pytest.raises(BrokenRule, match="500"):
        ALT("x" * 501)
    for bad in ("", "x" * 101):
        with pytest.raises(BrokenRule, match="1 to 100"):
            metadata_key(bad)
    with pytest.raises(BrokenRule, match="1000"):
        metadata_value("x" * 1_001)


@given(any_text)
def test_no_text_crashes_a_rule(text: str) -> None:
    for rule in (
        NAME,
        CATEGORY,
        DESCRIPTION,
        STATUS,
        metadata_key,
    ):
        try:
            rule(text)
        except BrokenRule as refusal:
            str(refusal).encode()  # can be sent, whatever the text was


def test_an_import_names_the_lowest_10000_ids_of_what_is_new_and_of_what_it_changed() -> None:
    batches = [range(start, start + 4_000) for start in (12_000, 8_000, 4_000, 0)]
    new, *more = [RecordsImported.of(batch, ()) for batch in batches]
    for one in more:
        new = new.plus(one)
    assert (new.inserted, new.updated, new.first_id, new.last_id) == (16_000, 0, 0, 15_999)
    assert (MOST_IDS, new.inserted_ids, new.updated_ids) == (10_000, [*range(10_000)], [])
    whole = RecordsImported.of((), [*reversed(range(16_000))])
    assert (whole.updated, whole.updated_ids) == (16_000, [*range(10_000)])
