"""When what failed is tried again (decisions §12)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portico.data.queue import DELIVERIES, MAILS, Retries

NOW = 1_773_576_000_000
each_queue = pytest.mark.parametrize("retries", [DELIVERIES, MAILS], ids=["deliveries", "mails"])


@each_queue
@given(data=st.data(), chance=st.floats(0, 1))
def test_each_wait_is_that_of_the_table_give_or_take_its_spread(
    retries: Retries, data: st.DataObject, chance: float
) -> None:
    attempts = data.draw(st.integers(1, len(retries.waits)))
    due = retries.next(NOW, attempts, chance=chance)
    assert due is not None
    wait = retries.waits[attempts - 1]
    assert (1 - retries.spread) * wait <= (due - NOW) / 1000 <= (1 + retries.spread) * wait


@each_queue
@given(data=st.data(), seconds=st.integers(0, 10**10))
def test_a_receiver_may_ask_for_a_longer_wait_and_for_no_shorter_one(
    retries: Retries, data: st.DataObject, seconds: int
) -> None:
    attempts = data.draw(st.integers(1, len(retries.waits)))
    due, least = retries.next(NOW, attempts, at_least=seconds), retries.next(NOW, attempts)
    assert least is not None
    assert due == max(least, NOW + 1000 * seconds)


@each_queue
def test_after_the_last_attempt_there_is_none(retries: Retries) -> None:
    assert retries.next(NOW, len(retries.waits) + 1) is None
