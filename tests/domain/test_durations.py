"""Durations as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portico.core.errors import BrokenRule
from portico.core.times import MAX_DURATION, parse_duration

UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("30s", 30_000), ("15m", 900_000), ("24h", 86_400_000), ("90d", 7_776_000_000), ("1s", 1_000),
     ("05m", 300_000), ("36500d", MAX_DURATION)],
)  # fmt: skip
def test_a_duration_is_read_in_milliseconds(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    ["", "0s", "000d", "5", "s", "-5s", "+5s", "1.5h", "5 s", " 5s", "5s ", "5s\n", "5S", "5w",
     "5ms", "1h30m", "\N{FULLWIDTH DIGIT FIVE}s", "٣d", "1e3s", "9" * 1_000_000 + "s"],
)  # fmt: skip
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(BrokenRule, match="30s, 15m, 24h or 90d"):
        parse_duration(text)


@given(st.integers(1, 9_999_999_999), st.sampled_from("smhd"))
def test_a_duration_is_at_most_a_hundred_years(number: int, unit: str) -> None:
    milliseconds = number * UNITS[unit]
    if milliseconds <= MAX_DURATION:
        assert parse_duration(f"{number}{unit}") == milliseconds
    else:
        with pytest.raises(BrokenRule, match="100 years"):
            parse_duration(f"{number}{unit}")
