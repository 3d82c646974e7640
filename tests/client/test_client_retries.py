"""When requests are repeated: the rules as properties, and every fault that httpx knows."""

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.scripted import CASES, KEY, PLACE, Scripted, answer, drive, pauses, refusal, table
from portico_client import (
    AsyncClient,
    Client,
    ConnectionFailed,
    PreconditionFailed,
)
from portico_client.flow import Request, Response
from portico_client.retries import Retries, attempts

RETRIES = Retries(3, 60.0, lambda: 1.0)
BUSY = refusal(503, "SERVICE_UNAVAILABLE", retry_after="2")
BROKEN = refusal(500, "INTERNAL_ERROR")
LIMITED = refusal(429, "RATE_LIMITED", retry_after="7")
UNDER_WAY = refusal(409, "CONFLICT")
DONE = answer(200, {})
LOST = ConnectionFailed("it broke")
UNSENT = ConnectionFailed("nobody is there", sent=False)

GET = Request("GET", PLACE)
POST = Request("POST", PLACE)
KEYED = Request("POST", PLACE, {"idempotency-key": "k"})
PATCH = Request("PATCH", PLACE)
GUARDED_PATCH = Request("PATCH", PLACE, {"if-match": '"tag"'})
ANY_PATCH = Request("PATCH", PLACE, {"if-match": "*"})
DELETE = Request("DELETE", PLACE)
GUARDED_DELETE = Request("DELETE", PLACE, {"if-match": '"tag"'})

UNGUARDED = [POST, PATCH, ANY_PATCH, DELETE]
GUARDED = [GET, KEYED, GUARDED_PATCH, GUARDED_DELETE]

requests = st.sampled_from([*UNGUARDED, *GUARDED])
outcomes = st.sampled_from(
    [BUSY, BROKEN, LIMITED, UNDER_WAY, DONE, LOST, UNSENT, refusal(404, "RESOURCE_NOT_FOUND")]
)


def may_have_been_done(outcome: Response | ConnectionFailed) -> bool:
    """Whether an outcome leaves open that the request was carried out."""
    if isinstance(outcome, ConnectionFailed):
        return outcome.sent
    return outcome.status != 429


@CASES
@given(requests, st.lists(outcomes, min_size=4, max_size=4))
def test_no_request_is_sent_more_than_four_times(request: Request, steps: list[Any]) -> None:
    _, asked = drive(attempts(request, RETRIES), steps)
    assert 1 <= asked.count(request) <= 4
    assert len(pauses(asked)) == asked.count(request) - 1, "a pause before every repetition"


@CASES
@given(st.sampled_from(UNGUARDED), st.lists(outcomes, min_size=4, max_size=4))
def test_what_may_have_been_done_is_not_repeated_unguarded(
    request: Request, steps: list[Any]
) -> None:
    _, asked = drive(attempts(request, RETRIES), steps)
    sent = asked.count(request)
    assert not any(may_have_been_done(step) for step in steps[: sent - 1])


@CASES
@given(requests, st.lists(outcomes, min_size=4, max_size=4), st.floats(0, 1))
def test_a_wait_is_what_was_asked_and_a_bounded_part_by_chance(
    request: Request, steps: list[Any], chance: float
) -> None:
    _, asked = drive(attempts(request, Retries(3, 60.0, lambda: chance)), steps)
    for number, (step, wait) in enumerate(zip(steps, pauses(asked), strict=False)):
        least = 0
        if isinstance(step, Response):
            least = int(step.headers.get("retry-after", "0"))
        assert wait == pytest.approx(least + (1 + chance) * 0.25 * 2**number)


@CASES
@given(st.lists(st.floats(0, 0.999), min_size=3, max_size=3))
def test_the_delays_after_500_increase_whatever_chance_says(chances: list[float]) -> None:
    drawn = iter(chances)
    _, asked = drive(attempts(GET, Retries(3, 60.0, lambda: next(drawn))), [BROKEN] * 4)
    first, second, third = pauses(asked)
    assert 0.25 <= first < second < third < 2.0


@pytest.mark.parametrize("times", [-1, 4, 1.5, 2.0, "3", None])
def test_what_is_no_number_of_repetitions_is_refused_at_once(times: Any) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match="0 to 3"):
            kind(KEY, retries=times)


DATA = table("calls.json")["data"]
PRODUCT, ROTATED = DATA["product"], DATA["rotated"]

Faults = list[type[httpx.RequestError]]
NEVER_SENT: Faults = [httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout]
PERHAPS_SENT: Faults = [
    httpx.ReadError,
    httpx.ReadTimeout,
    httpx.WriteError,
    httpx.RemoteProtocolError,
]


def both(*steps: Any) -> tuple[Client, Scripted, list[float]]:
    """A client before a script, and the waits that it asks for."""
    waits: list[float] = []
    script = Scripted(*steps)
    return (
        Client(KEY, base_url=PLACE, transport=script, sleep=waits.append, random=lambda: 0.5),
        script,
        waits,
    )


def test_every_post_has_a_key_of_its_own() -> None:
    made = answer(201, {"data": PRODUCT})
    client, script, _ = both(made, made, made)
    client.products.create(name="Lamp", category="light", price=1)
    client.products.create(name="Lamp", category="light", price=1)
    client.products.create(name="Lamp", category="light", price=1, idempotency_key="mine")
    first, second, third = (request.headers["idempotency-key"] for request in script.requests)
    assert first != second
    assert third == "mine"


@pytest.mark.parametrize("fault", NEVER_SENT)
def test_a_change_is_repeated_where_no_connection_came_about(
    fault: type[httpx.RequestError],
) -> None:
    client, script, _ = both(fault("no"), answer(200, {"data": PRODUCT}))
    assert client.products.update(1, price=2).id == 1
    assert len(script.requests) == 2


@pytest.mark.parametrize("fault", PERHAPS_SENT)
def test_a_change_without_a_tag_is_not_repeated_where_the_answer_was_lost(
    fault: type[httpx.RequestError],
) -> None:
    client, script, _ = both(fault("no"))
    with pytest.raises(ConnectionFailed) as failed:
        client.products.update(1, price=2)
    assert failed.value.sent
    assert len(script.requests) == 1


@pytest.mark.parametrize("fault", PERHAPS_SENT)
def test_a_change_with_a_tag_is_repeated_and_tells_of_a_conflict(
    fault: type[httpx.RequestError],
) -> None:
    client, script, _ = both(fault("no"), refusal(412, "PRECONDITION_FAILED"))
    with pytest.raises(PreconditionFailed):
        client.products.update(1, price=2, if_match='"tag"')
    assert len(script.requests) == 2
