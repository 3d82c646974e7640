"""Requests as an account's owner sees them: how many of each kind there were, and which failed."""

import msgspec

EVERYBODY = 0
"""Stands for all accounts together, including requests without an account."""

NOBODY = -1
"""Stands for requests without an account, or whose account is unknown."""

NO_KEY = 0
"""Stands for every credential that is not an API key: sessions, logins, applications."""

NOWHERE = ""
"""Stands for every unknown path, and every method that a path does not support."""

REFUSED = 429

MOST_FAILED = 100
"""How many failed requests are kept for each account: the latest ones."""


Kind = tuple[int, int, str, int, int]
"""Requests that are counted together: the account, the hour since the epoch, the route (a method
and a pattern, never a path), the status and the API key. A plain tuple, because one is made for
every request."""


class FailedRequest(msgspec.Struct, frozen=True, gc=False):
    """A request of an account that was answered with an error. `at` is when it arrived, `code` the
    error code of the answer."""

    user_id: int
    at: int
    route: str
    status: int
    code: str
    key_id: int
    request_id: str


class Sums(msgspec.Struct, frozen=True, gc=False):
    """How many requests there were in all; of these, how many got an error, and how many were
    refused because a limit was reached (429)."""

    requests: int = 0
    failed: int = 0
    refused: int = 0

    @property
    def answered(self) -> int:
        """How many succeeded."""
        return self.requests - self.failed - self.refused

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(
            self.requests + other.requests,
            self.failed + other.failed,
            self.refused + other.refused,
        )
