"""Cookie sessions, and how long they last (specification §5.4)."""

from typing import NamedTuple

import msgspec

from portico.core.times import SECOND

Methods = tuple[str, ...]
"""Values of `amr`, in their order."""

BY_PASSWORD: Methods = ("pwd",)
BY_CODE: Methods = ("pwd", "otp", "mfa")
"""By password and a code of an authenticator app, or a recovery code."""
BY_PROVIDER: Methods = ()
"""By another provider; Portico itself has checked nothing."""
BY_PROVIDER_AND_CODE: Methods = ("otp", "mfa")


class Proof(NamedTuple):
    """How a user signed in, and when (epoch milliseconds). `sid` is that of the session, if any."""

    amr: Methods
    at: int
    sid: str | None = None


BY_PASSKEY: Methods = ("pop", "user", "mfa")

LEVELS = ("1", "2")
"""The values of `acr`, the strongest last."""


def level(amr: Methods) -> str:
    """The `acr` of a proof: `2` for two factors, else `1`."""
    return "2" if "mfa" in amr else "1"


IDLE_SECONDS = 1_800
MAX_SECONDS = 86_400
DEVICE_SECONDS = 365 * 86_400
"""How long an account remembers a device or an address after the last sign-in from there."""
PENDING_SECONDS = 600
"""How long a sign-in waits for the second factor."""


class Session(msgspec.Struct, frozen=True):
    """A stored session; times are epoch milliseconds, `expires_at` is the absolute end.

    `amr` is how the user signed in, `proved_at` when they last proved who they are; it is 0 if only
    another provider has checked that. OAuth clients know the session by its `sid`, which outlives
    signing in again.
    """

    id: int
    user_id: int
    address: str
    user_agent: str
    created_at: int
    last_seen_at: int
    expires_at: int
    amr: Methods
    proved_at: int
    sid: str

    @property
    def proof(self) -> Proof:
        """How and when the user signed in."""
        return Proof(self.amr, self.created_at, self.sid)


def idle_end(last_seen_at: int) -> int:
    """When a session expires that is not used again."""
    return last_seen_at + IDLE_SECONDS * SECOND


_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)
_LONGEST = 60


class Agent(NamedTuple):
    """A browser and its system, each None if unknown; or another program, whose name is empty if
    unknown, and None for a browser."""

    browser: str | None
    system: str | None
    program: str | None


def read_agent(user_agent: str) -> Agent:
    """Reads a `User-Agent`, which is a hint and never a proof, since clients can send anything. All
    browsers' begin with "Mozilla/"; anything else is a program's."""
    if not user_agent.startswith("Mozilla/"):
        program = user_agent.split("/")[0].split()
        return Agent(None, None, program[0][:_LONGEST] if program else "")
    return Agent(_first(_BROWSERS, user_agent), _first(_SYSTEMS, user_agent), None)


def _first(names: tuple[tuple[str, str], ...], user_agent: str) -> str | None:
    return next((words for sign, words in names if sign in user_agent), None)
