"""When a delivery is tried again (decisions §12)."""

from hypothesis import given
from hypothesis import strategies as st

from portico.domain.webhooks import LONGEST_RETRY_AFTER, RETRY_SECONDS, retry_at

NOW = 1_773_576_000_000
chances = st.floats(0, 1)
attempts = st.integers(1, len(RETRY_SECONDS))


@given(attempts, chances)
def test_each_wait_is_the_schedules_give_or_take_a_fifth(tries: int, chance: float) -> None:
    due = retry_at(NOW, tries, chance, None)
    assert due is not None
    wait = RETRY_SECONDS[tries - 1]
    assert 0.8 * wait <= (due - NOW) / 1000 <= 1.2 * wait


@given(attempts, chances, st.integers(0, 10**10))
def test_a_receiver_may_ask_for_longer_and_for_no_less(
    tries: int, chance: float, seconds: int
) -> None:
    due, least = retry_at(NOW, tries, chance, seconds), retry_at(NOW, tries, chance, None)
    assert due is not None
    assert least is not None
    assert due == max(least, NOW + 1000 * min(seconds, LONGEST_RETRY_AFTER))


@given(chances)
def test_after_the_last_attempt_there_is_none(chance: float) -> None:
    assert retry_at(NOW, len(RETRY_SECONDS) + 1, chance, None) is None
