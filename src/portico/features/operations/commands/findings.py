"""The results of the checks of `portico doctor`."""

from collections.abc import AsyncIterator, Iterator

import msgspec

_OURS = "make the account that serves its owner, and run this command as that account"


class Finding(msgspec.Struct, frozen=True):
    """What one check found. `advice` says what to do; it is empty if there is nothing to do."""

    check: str
    ok: bool
    message: str
    advice: str = ""


def ok(check: str, message: str) -> Finding:
    """A finding without a problem."""
    return Finding(check=check, ok=True, message=message)


def problem(check: str, message: str, advice: str) -> Finding:
    """A finding of a problem."""
    return Finding(check=check, ok=False, message=message, advice=advice)


def notice(check: str, message: str, advice: str) -> Finding:
    """A finding without a problem, but with advice."""
    return Finding(check=check, ok=True, message=message, advice=advice)


def advised(error: Exception, advice: str) -> str:
    """The advice about an error, or about file ownership if permissions caused the error."""
    is_refused = any(isinstance(one, PermissionError) for one in (error, error.__cause__))
    return _OURS if is_refused else advice


def _unusable(check: str, error: OSError) -> Finding:
    """A finding for a check that could not finish because of a system error."""
    place = f"{error.filename}: " if error.filename else ""
    advice = advised(error, "check the disk and its file system")
    return problem(check, f"{place}{error.strerror or error}", advice)


async def all_of(
    check: str, findings: Iterator[Finding] | AsyncIterator[Finding]
) -> AsyncIterator[Finding]:
    """The findings of a check. A system error ends the check and becomes its last finding."""
    try:
        if isinstance(findings, AsyncIterator):
            async for finding in findings:
                yield finding
        else:
            for finding in findings:
                yield finding
    except OSError as error:
        yield _unusable(check, error)
