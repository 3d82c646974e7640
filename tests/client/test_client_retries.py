"""When requests are repeated: the rules as properties, and both faces against a script."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.scripted import CASES, KEY, PLACE, Scripted, answer, drive, pauses, refusal
from portico_client import (
    AsyncClient,
    Client,
    Conflict,
    ConnectionFailed,
    InternalError,
    PreconditionFailed,
    RateLimited,
    SecretLost,
    ServiceUnavailable,
    UntrustedCertificate,
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


@pytest.mark.parametrize("request_", GUARDED)
@pytest.mark.parametrize("step", [BUSY, BROKEN, LIMITED, LOST, UNSENT])
def test_what_is_safe_to_repeat_is_repeated_until_it_is_done(request_: Request, step: Any) -> None:
    outcome, asked = drive(attempts(request_, RETRIES), [step, step, step, DONE])
    assert outcome == DONE
    assert asked.count(request_) == 4


@pytest.mark.parametrize("request_", UNGUARDED)
@pytest.mark.parametrize("step", [LIMITED, UNSENT])
def test_what_was_surely_not_done_is_repeated(request_: Request, step: Any) -> None:
    outcome, _ = drive(attempts(request_, RETRIES), [step, step, step, DONE])
    assert outcome == DONE


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 408, 409, 412, 413, 422, 502])
def test_other_refusals_are_not_repeated(status: int) -> None:
    refused = refusal(status, "ANY")
    outcome, asked = drive(attempts(KEYED, RETRIES), [refused])
    assert (outcome, asked) == (refused, [KEYED])


def test_the_last_fault_is_the_one_that_is_raised() -> None:
    outcome, _ = drive(attempts(GET, RETRIES), [UNSENT, BROKEN, UNSENT, LOST])
    assert outcome is LOST


def test_a_wait_beyond_patience_is_left_to_the_caller() -> None:
    day = refusal(429, "RATE_LIMITED", retry_after="61")
    assert drive(attempts(GET, RETRIES), [day]) == (day, [GET])
    minute = refusal(429, "RATE_LIMITED", retry_after="60")
    assert drive(attempts(GET, RETRIES), [minute, DONE])[0] == DONE


def test_a_certificate_that_is_not_trusted_is_not_tried_again() -> None:
    fault = UntrustedCertificate("no")
    assert drive(attempts(GET, RETRIES), [fault]) == (fault, [GET])


def test_a_repeated_post_waits_for_the_first_that_is_still_under_way() -> None:
    outcome, asked = drive(attempts(KEYED, RETRIES), [LOST, UNDER_WAY, DONE])
    assert (outcome, asked.count(KEYED)) == (DONE, 3)
    assert drive(attempts(KEYED, RETRIES), [UNDER_WAY])[0] == UNDER_WAY, "a conflict of its own"


def test_a_repeated_delete_that_finds_nothing_has_done_its_work() -> None:
    gone = refusal(404, "RESOURCE_NOT_FOUND")
    assert drive(attempts(GUARDED_DELETE, RETRIES), [LOST, gone])[0].status == 204
    assert drive(attempts(GUARDED_DELETE, RETRIES), [gone])[0] == gone
    assert drive(attempts(GUARDED_DELETE, RETRIES), [LIMITED, gone])[0] == gone


@pytest.mark.parametrize("times", [-1, 4])
def test_more_than_three_repetitions_cannot_be_asked_for(times: int) -> None:
    with pytest.raises(ValueError, match="0 to 3"):
        Client(KEY, retries=times)


PRODUCT = {
    "id": 1,
    "name": "Lamp",
    "description": "",
    "category": "light",
    "price": 24.5,
    "currency": "USD",
    "in_stock": False,
    "stock_quantity": 0,
    "status": "draft",
    "created_at": "2026-03-15T12:00:00.000Z",
    "updated_at": "2026-03-15T12:00:00.000Z",
    "images": [],
    "metadata": {},
}
ROTATED = {
    "id": 2,
    "name": "Till",
    "type": "live",
    "hint": "sk_live_…x7Qd",
    "created_at": "2026-03-15T12:00:00.000Z",
    "expires_at": None,
    "previous_key": {"id": 1, "expires_at": "2026-03-16T12:00:00.000Z"},
}

Faults = list[type[httpx.RequestError]]
NEVER_SENT: Faults = [httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout]
PERHAPS_SENT: Faults = [
    httpx.ReadError,
    httpx.ReadTimeout,
    httpx.WriteError,
    httpx.RemoteProtocolError,
]

Act = Callable[[Client], object]


def both(*steps: Any) -> tuple[Client, Scripted, list[float]]:
    """A client before a script, and the waits that it asks for."""
    waits: list[float] = []
    script = Scripted(*steps)
    return (
        Client(KEY, base_url=PLACE, transport=script, sleep=waits.append, random=lambda: 0.5),
        script,
        waits,
    )


def test_a_post_is_repeated_with_the_same_key_and_body() -> None:
    made = answer(201, {"data": PRODUCT})
    client, script, waits = both(httpx.ReadError("lost"), BUSY, made)
    assert client.products.create(name="Lamp", category="light", price=1).id == 1
    keys = {request.headers["idempotency-key"] for request in script.requests}
    assert len(keys) == 1
    assert len({request.content for request in script.requests}) == 1
    assert waits == [0.375, 2.75]
    client.close()


def test_every_post_has_a_key_of_its_own() -> None:
    made = answer(201, {"data": PRODUCT})
    client, script, _ = both(made, made, made)
    client.products.create(name="Lamp", category="light", price=1)
    client.products.create(name="Lamp", category="light", price=1)
    client.products.create(name="Lamp", category="light", price=1, idempotency_key="mine")
    first, second, third = (request.headers["idempotency-key"] for request in script.requests)
    assert first != second
    assert third == "mine"


async def test_the_asynchronous_face_repeats_likewise() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    script = Scripted(httpx.ConnectError("no"), LIMITED, BUSY, BROKEN)
    async with AsyncClient(
        KEY, base_url=PLACE, transport=script, sleep=sleep, random=lambda: 1.0
    ) as client:
        with pytest.raises(InternalError):
            await client.me()
    assert waits == [0.5, 8.0, 4.0]


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


def test_limits_and_outages_say_when_to_come_back() -> None:
    client, script, _ = both(refusal(429, "RATE_LIMITED", retry_after="3600"))
    with pytest.raises(RateLimited) as limited:
        client.me()
    assert limited.value.retry_after == 3600
    assert len(script.requests) == 1
    client, _, _ = both(BUSY)
    with pytest.raises(ServiceUnavailable) as unavailable:
        client.products.delete(1)
    assert unavailable.value.retry_after == 2


def test_a_client_without_retries_tries_once() -> None:
    script = Scripted(BUSY)
    with (
        Client(KEY, base_url=PLACE, transport=script, retries=0) as client,
        pytest.raises(ServiceUnavailable),
    ):
        client.me()
    assert len(script.requests) == 1


def test_a_rotation_whose_answer_was_lost_says_so() -> None:
    replayed = answer(201, {"data": ROTATED}, idempotent_replayed="true")
    client, _, _ = both(httpx.ReadError("lost"), replayed)
    with pytest.raises(SecretLost, match="x7Qd"):
        client.api_keys.rotate(switch=True)


def test_a_conflict_of_its_own_is_raised_at_once() -> None:
    client, script, _ = both(UNDER_WAY)
    with pytest.raises(Conflict):
        client.api_keys.rotate()
    assert len(script.requests) == 1
