"""Notices: what was read holds until it is told that it may not, or until they may be missing."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from portico.data.database import Dependency
from portico.data.postgres.notices import Notices

ANN: Dependency = ("users", 1)
BOB: Dependency = ("users", 2)
KEYS: Dependency = ("signing_keys",)
TABLE = 16_384
"""What identifies the table of the number."""


@dataclass
class Seconds:
    """Stand still until a test moves them."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def notices(seconds: Seconds) -> Notices:
    """Those of a process that has heard of all so far, of which 7 came before it began."""
    notices = Notices(seconds)
    assert notices.end(notices.begin(), 7, TABLE)
    return notices


def moved(notices: Notices, happens: Callable[[], object]) -> set[Dependency]:
    """Which of the parts have another version by what happens."""
    parts = (ANN, BOB, KEYS)
    before = [notices.version([part]) for part in parts]
    happens()
    return {part for part, was in zip(parts, before, strict=True) if notices.version([part]) != was}


ALL = {ANN, BOB, KEYS}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        *(("8 users 1", {ANN}), ("8 signing_keys", {KEYS}), ("8 api_keys 1", set())),
        ("7 users 2", {BOB}),  # one more of the same transaction
        ("9 api_keys 1", ALL),  # the eighth is missing
        ("8 users x", ALL),
    ],
)
def test_a_notice_moves_what_it_names_and_all_where_that_is_not_known(
    notices: Notices, text: str, told: set[Dependency]
) -> None:
    assert moved(notices, lambda: notices.hear(text)) == told


def test_a_notice_on_its_way_is_waited_for(notices: Notices, seconds: Seconds) -> None:
    def come_late() -> None:
        assert not notices.end(notices.begin(), 8, TABLE)
        seconds.now += 0.5
        notices.hear("8 users 1")
        assert notices.end(notices.begin(), 8, TABLE)

    assert moved(notices, come_late) == {ANN}
    seconds.now += 0.9
    assert notices.complete


@pytest.mark.parametrize("number", [8, 6])
def test_all_is_forgotten_a_second_after_a_notice_was_missed(
    notices: Notices, seconds: Seconds, number: int
) -> None:
    """One of which the database alone knows; or the database is an earlier one."""

    def miss() -> None:
        assert not notices.end(notices.begin(), number, TABLE)
        seconds.now += 0.99
        assert not notices.end(notices.begin(), number, TABLE)
        assert notices.complete
        seconds.now += 0.01
        assert notices.end(notices.begin(), number, TABLE)

    assert moved(notices, miss) == ALL
    assert moved(notices, lambda: None) == set()  # it goes on from there
    assert moved(notices, lambda: notices.hear(f"{number + 1} users 2")) == {BOB}


def test_nothing_holds_after_a_lost_connection_or_in_a_restored_table(notices: Notices) -> None:
    def lose() -> None:
        notices.lose()
        assert not notices.complete
        assert notices.end(notices.begin(), 7, TABLE)

    def restore() -> None:
        assert notices.end(notices.begin(), 7, TABLE + 1)

    assert moved(notices, lose) == ALL
    assert moved(notices, restore) == ALL
    assert moved(notices, restore) == set()
