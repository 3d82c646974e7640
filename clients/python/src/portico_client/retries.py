"""When a request is retried, and after which delay.

A request is retried at most three times, after

- **429**, always: nothing was done;
- **500, 502, 503 and 504**, and **409 for a key whose first request may still be under way**;
- **a connection that failed before the request was sent**, always;
- **a connection that failed later**.

If the service may have carried the request out, it is retried only if repeating it is safe: GET and
HEAD; POST with an `Idempotency-Key`, which is carried out once; PATCH and DELETE with an `If-Match`
that names an entity tag, which fails once the first attempt went through. `If-Match: *` does not
protect, so it does not count.

The delay is that of `Retry-After`, plus a random number of seconds from the upper half of a bound
that doubles with each attempt: the delays of one request increase, and clients that were refused
together do not come back together.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from portico_client.errors import Conflict, ConnectionFailed, NotFound, UntrustedCertificate
from portico_client.flow import Flow, Pause, Request, Response
from portico_client.reading import error_of, retry_after

MOST = 3
FIRST_BOUND_SECONDS = 0.5
LAST_BOUND_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Retries:
    """How often to retry (0 to 3), the longest `Retry-After` to wait for in seconds, and a source
    of random numbers from 0 to 1."""

    times: int
    patience: float
    random: Callable[[], float]

    def __post_init__(self) -> None:
        if not (isinstance(self.times, int) and 0 <= self.times <= MOST):
            raise ValueError(f"retries must be a whole number, 0 to {MOST}")
        if not self.patience >= 0:
            raise ValueError("patience must be 0 seconds or more")

    def delays(self) -> Iterator[float]:
        """The random part of the delay before each retry, in seconds."""
        return islice(self.endless_delays(), self.times)

    def endless_delays(self) -> Iterator[float]:
        """The same for an endless number of retries: half a minute at most."""
        bound = FIRST_BOUND_SECONDS
        while True:
            yield bound * (1 + self.random()) / 2
            bound = min(2 * bound, LAST_BOUND_SECONDS)


def attempts(request: Request, retries: Retries) -> Flow[Response]:
    """Sends a request until it is answered and should not be retried, and returns the response.

    Raises `ConnectionFailed` if there is none. If a retried DELETE finds nothing (404), an earlier
    attempt has deleted the resource, so the response is 204.
    """
    guarded = is_guarded(request)
    perhaps_done = False
    delays = retries.delays()
    while True:
        try:
            response: Response = yield request
        except ConnectionFailed as fault:
            delay = next(delays, None)
            again = guarded or not fault.sent
            if delay is None or not again or isinstance(fault, UntrustedCertificate):
                raise
            perhaps_done = perhaps_done or fault.sent
            yield Pause(delay)
            continue
        if response.status < 400:
            return response
        if perhaps_done and request.method == "DELETE" and _is_not_found(response):
            return Response(204, response.headers, b"")
        if not _worth_repeating(request, response, guarded=guarded, perhaps_done=perhaps_done):
            return response
        wait = retry_after(response) or 0
        delay = next(delays, None) if wait <= retries.patience else None
        if delay is None:
            return response
        perhaps_done = perhaps_done or response.status != 429
        yield Pause(wait + delay)


def is_guarded(request: Request) -> bool:
    """Whether a request can be retried although the first attempt may have been carried out."""
    if request.method in ("GET", "HEAD"):
        return True
    if request.method == "POST":
        return "idempotency-key" in request.headers
    return request.headers.get("if-match", "*").strip() != "*"


def _is_not_found(response: Response) -> bool:
    return response.status == 404 and isinstance(error_of(response), NotFound)


def _worth_repeating(
    request: Request, response: Response, *, guarded: bool, perhaps_done: bool
) -> bool:
    if response.status == 429:
        return True
    if response.status in (500, 502, 503, 504):  # 502 and 504 come from a proxy
        return guarded
    under_way = perhaps_done and guarded and request.method == "POST"
    return under_way and isinstance(error_of(response), Conflict)
