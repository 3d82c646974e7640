"""The progress of work that takes long: apart, since other commands need not load the bar."""

import shutil
import sys
from typing import Any

from tqdm import tqdm


def progress(what: str, total: int | None, unit: str) -> Any:
    """A progress bar on standard error, if that is a terminal."""
    size = shutil.get_terminal_size()  # where a terminal's is 0 by 0, 80 by 24; tqdm shows nothing
    return tqdm(
        desc=what,
        total=total,
        unit=unit,
        unit_scale=True,
        file=sys.stderr,
        disable=not sys.stderr.isatty(),
        ncols=size.columns,
        nrows=size.lines,
    )
