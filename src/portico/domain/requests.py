"""Requests as their owners see them: how many of each kind there were, and which failed."""

import msgspec

EVERYBODY = 0
"""Stands for all accounts together, and for whoever has none."""

NOBODY = -1
"""Stands for whoever has no account, or could not be told."""

NO_KEY = 0
"""Stands for what is no API key: sessions, logins, applications."""

NOWHERE = ""
"""Stands for every path that leads nowhere, and every method that a path does not take."""

REFUSED = 429

MOST_FAILED = 100
"""How many of an account's failed requests are kept, the latest."""


Kind = tuple[int, int, str, int, int]
"""Requests that are counted together: of an account, in one hour since the epoch, to one route (a
method and a pattern, never a path), with one status and one API key. A plain tuple, because one is
made for every request."""


class FailedRequest(msgspec.Struct, frozen=True, gc=False):
    """A request of an account that was answered with an error, and when it came in; `code` is the
    error's as its answer had it."""

    user_id: int
    at: int
    route: str
    status: int
    code: str
    key_id: int
    request_id: str


class Sums(msgspec.Struct, frozen=True, gc=False):
    """How many requests there were in all; of these, how many were answered with an error, and how
    many were refused because a limit was reached (429)."""

    requests: int = 0
    failed: int = 0
    refused: int = 0

    @property
    def answered(self) -> int:
        """How many got what they asked for."""
        return self.requests - self.failed - self.refused

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(
            self.requests + other.requests,
            self.failed + other.failed,
            self.refused + other.refused,
        )
