"""What the checks of `portico doctor` tell."""

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """What one check found. `advice` says what to do, and is empty where there is nothing."""

    check: str
    ok: bool
    message: str
    advice: str = ""


def well(check: str, message: str) -> Finding:
    """Nothing is wrong."""
    return Finding(check=check, ok=True, message=message)


def wrong(check: str, message: str, advice: str) -> Finding:
    """A problem, and what to do about it."""
    return Finding(check=check, ok=False, message=message, advice=advice)


def notice(check: str, message: str, advice: str) -> Finding:
    """Nothing is wrong, and still something may be better otherwise."""
    return Finding(check=check, ok=True, message=message, advice=advice)
