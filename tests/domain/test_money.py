"""Exact prices, bounds of price filters, currencies."""

import json
import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from portico.core.errors import BrokenRule
from portico.core.money import (
    CURRENCIES,
    MAX_PRICE,
    UNITS_PER_ONE,
    bound_units,
    currency,
    price_bound,
    price_shown,
    price_text,
    price_units,
    price_written,
)

HIGHEST_BOUND = 10**16


@pytest.mark.parametrize(
    ("value", "units"),
    [("0", 0), ("-0", 0), ("-0.000", 0), ("0E+999999999", 0), ("0E-999999999", 0), ("1E+3", 10**7),
     ("1.50000", 15_000), ("0.0001", 1), ("1." + "0" * 100_000, 10_000),
     ("999999999999.9999", MAX_PRICE)],
)  # fmt: skip
def test_a_decimal_that_is_a_price_is_read_exactly(value: str, units: int) -> None:
    assert price_units(Decimal(value)) == units


@pytest.mark.parametrize(
    ("value", "message"),
    [("1e12", "less than"), ("1.00001", "4 decimals"), ("1E-999999999999", "4 decimals"),
     ("0." + "0" * 100_000 + "1", "4 decimals"), ("-0.0001", "negative"),
     ("-1e999999999", "negative"), ("NaN", "number"), ("-Infinity", "number")],
)  # fmt: skip
def test_a_decimal_that_is_no_price_is_refused_by_what_it_breaks(value: str, message: str) -> None:
    with pytest.raises(BrokenRule, match=message):
        price_units(Decimal(value))


@given(st.integers())
@example(10**12 - 1)
@example(10**12)
@example(-1)
def test_an_integer_is_a_price_below_a_million_millions(value: int) -> None:
    if 0 <= value < 10**12:
        assert price_units(value) == value * UNITS_PER_ONE
    else:
        with pytest.raises(BrokenRule):
            price_units(value)


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_no_decimal_is_ever_rounded(value: Decimal) -> None:
    assume(abs(value.adjusted()) < 1_000)  # so that Fraction, the oracle, stays small
    units = Fraction(value) * UNITS_PER_ONE
    if units.denominator == 1 and 0 <= units <= MAX_PRICE:
        assert price_units(value) == units
    else:
        with pytest.raises(BrokenRule):
            price_units(value)


json_numbers = st.from_regex(
    r"(0|[1-9][0-9]{0,15})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,2})?", fullmatch=True
)


@given(json_numbers)
@example("999999999999.99999")
@example("0.00001")
@example("1e00000000000000000002")
def test_a_bound_moves_to_the_next_whole_unit_and_no_further(text: str) -> None:
    exact = Fraction(text) * UNITS_PER_ONE
    assert bound_units(price_bound(text), up=True) == min(math.ceil(exact), HIGHEST_BOUND)
    assert bound_units(price_bound(text), up=False) == min(math.floor(exact), HIGHEST_BOUND)


@pytest.mark.parametrize(
    ("text", "down", "up"),
    [("1e999999999", HIGHEST_BOUND, HIGHEST_BOUND),
     ("1e" + "9" * 5_000, HIGHEST_BOUND, HIGHEST_BOUND),
     ("1e-999999999", 0, 1), ("1e-" + "9" * 5_000, 0, 1), ("-0", 0, 0), ("-0.0e99999999999", 0, 0),
     ("1e" + "0" * 5_000, 10_000, 10_000), ("1" * 100_000, HIGHEST_BOUND, HIGHEST_BOUND)],
)  # fmt: skip
def test_extreme_bounds_are_clamped(text: str, down: int, up: int) -> None:
    assert bound_units(price_bound(text), up=False) == down
    assert bound_units(price_bound(text), up=True) == up


@pytest.mark.parametrize(
    ("text", "units"),
    [("0", 0), (" 24,50 ", 245_000), ("0,125", 1_250), ("1.2340", 12_340), ("0.234", 2_340),
     ("1,234.50", 12_345_000), ("1.234,50", 12_345_000), ("1,234,567", 12_345_670_000),
     ("1\N{NARROW NO-BREAK SPACE}234.5", 12_345_000), ("1'234.50", 12_345_000),
     ("999999999999.9999", MAX_PRICE)],
)  # fmt: skip
def test_a_price_is_read_as_people_write_it(text: str, units: int) -> None:
    assert price_written(text) == units


@pytest.mark.parametrize(
    ("text", "says"),
    [("1,234", "two ways: write 1234 or 1.2340"), ("999.000", "two ways: write 999000 or 999.0000"),
     ("-1", "negative"), ("1.00001", "4 decimals"), ("9" * 60_000, "less than"),
     *((text, "must be a number") for text in (
         "", "$5", "1e3", "12 34", ".", "1,23,456", "1.2.3", "--1", "NaN", "1234,567.8",
         "\N{ARABIC-INDIC DIGIT FIVE}"))],
)  # fmt: skip
def test_what_is_no_price_or_could_be_two_is_refused(text: str, says: str) -> None:
    with pytest.raises(BrokenRule, match=says):
        price_written(text)


@pytest.mark.parametrize(
    ("units", "code", "text"),
    [(12_345_000, "EUR", "1,234.50"), (12_350_000, "JPY", "1,235"), (10_000, "KWD", "1.000"),
     (1_250, "USD", "0.125")],
)  # fmt: skip
def test_a_price_is_shown_with_the_decimals_of_its_currency(
    units: int, code: str, text: str
) -> None:
    assert price_shown(units, code) == text


def test_a_point_before_three_decimals_is_one_in_a_currency_that_has_them() -> None:
    assert price_written("1.234", "KWD") == 12_340
    for text, code in (("1,234", "KWD"), ("1.234", "EUR"), ("1.234", "JPY"), ("1.234", "")):
        with pytest.raises(BrokenRule, match="two ways"):
            price_written(text, code)


@given(units=st.integers(0, MAX_PRICE), code=st.sampled_from(sorted(CURRENCIES)))
@example(units=12_340, code="USD")
@example(units=12_340, code="KWD")
@example(units=12_340, code="JPY")
@example(units=12_345_000, code="JPY")
def test_what_a_form_shows_of_a_price_is_read_as_the_same(units: int, code: str) -> None:
    assert price_written(price_shown(units, code, grouped=False), code) == units


@given(st.integers(0, MAX_PRICE))
@example(MAX_PRICE)
def test_price_is_written_as_the_shortest_json_number_and_read_as_the_same(units: int) -> None:
    text = price_text(units)
    assert price_units(Decimal(text)) == units
    assert json.loads(text) >= 0
    assert text == "0" or not text.startswith("0") or text.startswith("0.")
    assert "." not in text or text[-1] not in "0."


@pytest.mark.parametrize(
    ("text", "message"),
    [("-1", "negative"), ("-1e-9999999999", "negative"), ("1e" + "0" * 100_000 + "x", "number"),
     *((text, "number") for text in ("", " 1", "1\n", "+1", ".5", "1.", "01", "1e", "0x1", "1_0",
                                     "1,5", "NaN", "Infinity", "٣", "\N{FULLWIDTH DIGIT ONE}"))],
)  # fmt: skip
def test_a_bound_that_is_negative_or_no_json_number_is_refused(text: str, message: str) -> None:
    with pytest.raises(BrokenRule, match=message):
        price_bound(text)


def test_currency_is_an_active_code_of_iso_4217() -> None:
    for code in ("USD", "JPY", "XCG"):
        assert currency(code) == code
    for code in ("", "usd", "USD ", "US", "ZZZ", "DEM", "US\N{FULLWIDTH LATIN CAPITAL LETTER D}"):
        with pytest.raises(BrokenRule, match="ISO 4217"):
            currency(code)
