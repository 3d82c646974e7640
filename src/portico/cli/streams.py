"""The standard streams, where they are closed or take no more."""

import os
import sys
from io import TextIOWrapper

# What is written to a closed standard output is refused, as by the system: it may be a secret.
_CLOSED = (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))


def hold() -> None:
    """Puts something in the place of what is closed, so that no file of ours is there, and has
    escapes written for characters that a stream does not have."""
    for name, mode, flags in _CLOSED:
        if getattr(sys, name) is None:
            closed = os.open(os.devnull, flags)
            # So that no file of a worker's is there either.
            os.set_inheritable(closed, True)  # noqa: FBT003 - it has no names
            setattr(sys, name, os.fdopen(closed, mode))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def leave_output() -> None:
    """Lets go of what nobody takes, so that nothing of it is written once more at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def settle() -> None:
    """Writes what is left, unless that was refused before."""
    try:
        sys.stdout.flush()
    except OSError:
        leave_output()
