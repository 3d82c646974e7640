"""Password hashing with argon2id (RFC 9106), and the program that does it for a server.

The program, `python -m portico.services.hashing idle|lowest`, reads lines of its standard input,
`[number, *Request]`, and answers each by `[number, Answer]`, as JSON. It ends with its input. It
imports little, since sign-ins wait for the start of one that replaces another.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from mmap import mmap
from typing import Final

from nacl.exceptions import CryptoError
from nacl.pwhash import argon2id

HASH: Final = "hash"
VERIFY: Final = "verify"

Request = tuple[str, str, str | int, int]
"""`(HASH, password, iterations, bytes of memory)` or `(VERIFY, password, hash, bytes of memory)`.
"""

Answer = str | bool | None
"""The password's hash in PHC format, or whether the password has the hash. None if the system has
too little memory."""


def answer(request: Request) -> Answer:
    """Hashes or verifies a password."""
    kind, password, detail, memory = request
    # Text from JSON may contain half a surrogate pair, which UTF-8 cannot express.
    secret = password.encode(errors="surrogatepass")
    if kind == HASH:
        try:
            return argon2id.str(secret, int(detail), memory).decode()
        except CryptoError:  # has no other cause
            return None
    try:
        return argon2id.verify(str(detail).encode(), secret)
    except CryptoError:
        # Libsodium reports a wrong password and a lack of memory in the same way.
        try:
            mmap(-1, memory).close()
        except OSError:
            return None
        return False


def lowest_priority() -> None:
    """Gives this process the lowest priority (nice 19)."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 19)


def only_when_idle() -> None:
    """Lets this process run only when the processor is idle (`SCHED_IDLE`, sched(7)), or with the
    lowest priority if the system does not support that."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (AttributeError, OSError):
        lowest_priority()


PRIORITIES: dict[str, Callable[[], None]] = {"idle": only_when_idle, "lowest": lowest_priority}


def main(priority: str) -> None:
    """Answers requests until the input ends."""
    # Sent to the whole service or terminal: the server still needs hashes to finish its requests.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    PRIORITIES[priority]()
    with suppress(BrokenPipeError):
        for line in sys.stdin.buffer:
            number, *request = json.loads(line)
            sys.stdout.buffer.write(json.dumps([number, answer(request)]).encode() + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1])
