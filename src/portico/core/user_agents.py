"""Reads a `User-Agent`. Clients can send anything: it is a hint, never a proof."""

from typing import NamedTuple

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
    """Reads a `User-Agent`. All browsers' begin with "Mozilla/"; anything else is a program's."""
    if not user_agent.startswith("Mozilla/"):
        program = user_agent.split("/")[0].split()
        return Agent(None, None, program[0][:_LONGEST] if program else "")
    return Agent(_first(_BROWSERS, user_agent), _first(_SYSTEMS, user_agent), None)


def _first(names: tuple[tuple[str, str], ...], user_agent: str) -> str | None:
    return next((words for sign, words in names if sign in user_agent), None)
