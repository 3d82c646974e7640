"""Standard streams that are closed, or whose other end is gone."""

import os
import sys
from io import TextIOWrapper
from typing import TextIO

# stdout is replaced by a read-only file, so that writing fails as it does on a closed descriptor:
# losing the output silently could lose a secret.
_CLOSED = (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))


def replace_closed() -> None:
    """Replaces closed standard streams, so that no file opened later gets their descriptors, and
    makes stdout and stderr write escapes for characters that their encoding lacks."""
    for name, mode, flags in _CLOSED:
        if getattr(sys, name) is None:
            closed = os.open(os.devnull, flags)
            # Workers inherit it, so that their files do not get these descriptors either.
            os.set_inheritable(closed, True)  # noqa: FBT003 - it has no names
            setattr(sys, name, os.fdopen(closed, mode))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def discard_output(stream: TextIO | None = None) -> None:
    """Redirects a stream (default stdout) to nowhere, so that unread output is not written again at
    exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())


def flush_output() -> None:
    """Flushes stdout and stderr at the end, and drops what can no longer be written. Otherwise
    Python would try again, fail and exit with 120: with stdout, and from 3.14 on with stderr."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            discard_output(stream)
