"""Verifies that a delivery comes from Portico: the symmetric scheme of Standard Webhooks.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Sequence
from hmac import compare_digest, digest
from typing import Protocol

from portico_client.errors import InvalidDelivery
from portico_client.events import Event
from portico_client.reading import decode, event

SECRET = "whsec_"  # noqa: S105 - the prefix of one
SHORTEST_KEY, LONGEST_KEY = 24, 64
LONGEST_TIMESTAMP = 19
"""In digits, those of a signed 64-bit number."""

_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")


class WebhookHeaders(Protocol):
    """The headers of a request, as frameworks provide them: a `dict`, `email.message.Message`, …"""

    def items(self) -> Iterable[tuple[str, str]]:
        """Names and values."""
        ...


def verify_webhook(
    body: bytes,
    headers: WebhookHeaders,
    secret: str | Sequence[str],
    tolerance: float = 300,
    *,
    clock: Callable[[], float] = time.time,
) -> Event:
    """The event of a delivery, if Portico sent it: one of its signatures was made with `secret` (or
    one of several, while it is replaced), at most `tolerance` seconds before or after now.

    `body` is the unmodified bytes; `headers` are the request's, in any letter case; `clock` returns
    Unix seconds. An event may be delivered more than once, with the same `id`.

    Raises `InvalidDelivery` if the delivery must not be trusted, ValueError for an invalid secret,
    and TypeError for a body that is not bytes.
    """
    if not isinstance(body, bytes):
        raise TypeError(f"give the body's bytes as they came, not a {type(body).__name__}")
    keys = [_key(one) for one in ([secret] if isinstance(secret, str | bytes) else secret or ())]
    if not keys:
        raise ValueError("give a webhook's secret")
    found = {name.lower(): value for name, value in headers.items()}
    for name in _HEADERS:
        if not found.get(name):
            raise InvalidDelivery(f"it has no {name}")
    id_, timestamp, signatures = (found[name] for name in _HEADERS)
    if abs(_seconds(timestamp) - clock()) > tolerance:
        raise InvalidDelivery(f"its timestamp is more than {tolerance:g} seconds from now")
    content = f"{id_}.{timestamp}.".encode("utf-8", "surrogatepass") + body
    made = [b"v1," + b64encode(digest(key, content, "sha256")) for key in keys]
    sent = [one.encode("utf-8", "surrogatepass") for one in signatures.split()]
    if not any(compare_digest(ours, theirs) for ours in made for theirs in sent):
        raise InvalidDelivery("none of its signatures is valid")
    try:
        return event(decode(body))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidDelivery("it is signed but not an event") from error


def _key(secret: str) -> bytes:
    if not isinstance(secret, str):
        wrong = f"a webhook's secret is text, not of the type {type(secret).__name__}"
        raise ValueError(wrong)  # noqa: TRY004 - as for any other that is no secret
    try:
        key = b64decode(secret.removeprefix(SECRET), validate=True)
    except ValueError:
        key = b""
    if not (secret.startswith(SECRET) and SHORTEST_KEY <= len(key) <= LONGEST_KEY):
        # The message does not show the secret.
        raise ValueError(
            f"a webhook's secret is {SECRET} and {SHORTEST_KEY} to {LONGEST_KEY} bytes in base64"
        ) from None
    return key


def _seconds(timestamp: str) -> int:
    if not (timestamp.isascii() and timestamp.isdigit()) or len(timestamp) > LONGEST_TIMESTAMP:
        raise InvalidDelivery("its timestamp is not a time")
    return int(timestamp)
