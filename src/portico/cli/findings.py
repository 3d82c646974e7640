"""What the checks of `portico doctor` tell."""

from collections.abc import AsyncIterator, Iterator

import msgspec

_OURS = "give it to the account that serves, and run this as that one"


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


def advised(error: Exception, advice: str) -> str:
    """The advice about an error, unless it comes of a file that this account may not use."""
    is_refused = any(isinstance(one, PermissionError) for one in (error, error.__cause__))
    return _OURS if is_refused else advice


def _unusable(check: str, error: OSError) -> Finding:
    """What the system keeps from this account, so that a check cannot tell what is wrong."""
    place = f"{error.filename}: " if error.filename else ""
    advice = advised(error, "see that the disk and its file system are well")
    return wrong(check, f"{place}{error.strerror or error}", advice)


async def all_of(
    check: str, findings: Iterator[Finding] | AsyncIterator[Finding]
) -> AsyncIterator[Finding]:
    """What a check finds; where the system stops it, that is the last."""
    try:
        if isinstance(findings, AsyncIterator):
            async for finding in findings:
                yield finding
        else:
            for finding in findings:
                yield finding
    except OSError as error:
        yield _unusable(check, error)
