"""When requests are repeated: the rules as properties, and every fault that httpx knows."""

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.scripted import (
    CASES,
    KEY,
    PLACE,
    PRODUCT,
    Scripted,
    answer,
    drive,
    pauses,
    refusal,
)
from portico_client import AsyncClient, Client, ConnectionFailed, PreconditionFailed
from portico_client.flow import Request, Response
from portico_client.retries import Retries, attempts

BROKEN = refusal(500, "INTERNAL_ERROR")
LIMITED = refusal(429, "RATE_LIMITED", retry_after="7")
GET = Request("GET", PLACE)
UNGUARDED = [
    Request("POST", PLACE),
    *(Request(method, PLACE) for method in ("PATCH", "DELETE")),
    Request("PATCH", PLACE, {"if-match": "*"}),
]
GUARDED = [
    GET,
    Request("POST", PLACE, {"idempotency-key": "k"}),
    *(Request(method, PLACE, {"if-match": '"tag"'}) for method in ("PATCH", "DELETE")),
]
OUTCOMES = st.sampled_from(
    [
        *(refusal(503, "SERVICE_UNAVAILABLE", retry_after="2"), BROKEN, LIMITED, answer(200, {})),
        *(refusal(409, "CONFLICT"), refusal(404, "RESOURCE_NOT_FOUND")),
        *(ConnectionFailed("it broke"), ConnectionFailed("nobody is there", sent=False)),
    ]
)


def may_have_been_done(outcome: Response | ConnectionFailed) -> bool:
    """Whether an outcome leaves open that the request was carried out."""
    return outcome.sent if isinstance(outcome, ConnectionFailed) else outcome.status != 429


@CASES
@given(
    st.sampled_from([*UNGUARDED, *GUARDED]),
    st.lists(OUTCOMES, min_size=4, max_size=4),
    st.floats(0, 1),
)
def test_a_request_is_repeated_three_times_at_most_and_only_where_that_is_safe(
    request: Request, steps: list[Any], chance: float
) -> None:
    _, asked = drive(attempts(request, Retries(3, 60.0, lambda: chance)), steps)
    sent, waits = asked.count(request), pauses(asked)
    assert 1 <= sent <= 4
    assert len(waits) == sent - 1, "a pause before every repetition"
    if request in UNGUARDED:
        assert not any(may_have_been_done(step) for step in steps[: sent - 1])
    for number, (step, wait) in enumerate(zip(steps, waits, strict=False)):
        told = step.headers.get("retry-after", "0") if isinstance(step, Response) else "0"
        assert wait == pytest.approx(int(told) + (1 + chance) * 0.25 * 2**number)


@CASES
@given(st.lists(st.floats(0, 0.999), min_size=3, max_size=3))
def test_the_delays_after_500_increase_whatever_chance_says(chances: list[float]) -> None:
    drawn = iter(chances)
    _, asked = drive(attempts(GET, Retries(3, 60.0, lambda: next(drawn))), [BROKEN] * 4)
    first, second, third = pauses(asked)
    assert 0.25 <= first < second < third < 2.0


@pytest.mark.parametrize("times", [-1, 4, 1.5, "3", None])
def test_what_is_no_number_of_repetitions_is_refused_at_once(times: Any) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match="0 to 3"):
            kind(KEY, retries=times)


NEVER_SENT: list[type[httpx.RequestError]] = [
    *(httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
]
PERHAPS_SENT: list[type[httpx.RequestError]] = [
    *(httpx.ReadError, httpx.ReadTimeout, httpx.WriteError, httpx.RemoteProtocolError)
]


@pytest.mark.parametrize("fault", NEVER_SENT + PERHAPS_SENT)
def test_a_change_is_repeated_where_it_was_not_sent_or_has_a_tag(
    fault: type[httpx.RequestError],
) -> None:
    def client(*steps: Any) -> tuple[Client, Scripted]:
        script = Scripted(*steps)
        return Client(KEY, base_url=PLACE, transport=script, sleep=lambda _: None), script

    own, script = client(fault("no"), answer(200, {"data": PRODUCT}))
    if fault in NEVER_SENT:
        assert own.products.update(1, price=2).id == 1
        assert len(script.requests) == 2
    else:
        with pytest.raises(ConnectionFailed) as failed:
            own.products.update(1, price=2)
        assert failed.value.sent
        assert len(script.requests) == 1
    own, script = client(fault("no"), refusal(412, "PRECONDITION_FAILED"))
    with pytest.raises(PreconditionFailed):
        own.products.update(1, price=2, if_match='"tag"')
    assert len(script.requests) == 2
