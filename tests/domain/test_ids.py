"""Identifiers in a path."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from portico.core.errors import NotFound
from portico.core.ids import MAX_ID, parse_id, whole_number


@given(st.integers(1, MAX_ID))
@example(1)
@example(MAX_ID)
def test_every_id_reads_back_as_itself(number: int) -> None:
    assert parse_id(str(number)) == number


@pytest.mark.parametrize(
    "text",
    ["", "0", "-1", "+1", "01", "1.0", "1e3", "0x1", "1_000", " 1", "1 ", "1\n",
     "1\N{FULLWIDTH DIGIT ONE}", "²",
     "me", str(MAX_ID + 1), "9" * 19, "9" * 1_000_000],
)  # fmt: skip
def test_what_is_no_id_names_nothing(text: str) -> None:
    with pytest.raises(NotFound):
        parse_id(text)


@given(st.text())
def test_any_text_is_an_id_or_names_nothing(text: str) -> None:
    try:
        assert str(parse_id(text)) == text
    except NotFound:
        assert (
            not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_ID) or text[0] == "0"
        )


@pytest.mark.parametrize(
    "text",
    ["", "-1", "+1", "1.0", "1e3", "0x1", "1_000", " 1", "1\n", "1\N{FULLWIDTH DIGIT ONE}", "²",
     str(MAX_ID + 1), "0" * 20, "9" * 1_000_000],
)  # fmt: skip
def test_what_is_no_number_of_an_id_is_none(text: str) -> None:
    assert whole_number(text) is None
