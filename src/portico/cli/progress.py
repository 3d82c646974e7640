"""Progress bars. A module of its own, so that other commands need not load tqdm."""

import shutil
import sys
from typing import Any

from tqdm import tqdm


def progress(what: str, total: int | None, unit: str) -> Any:
    """A progress bar on standard error, if that is a terminal. A bar without a `total` is cleared
    when it closes: the command then prints the result itself."""
    size = shutil.get_terminal_size()  # 80 by 24 if the terminal says 0 by 0, where tqdm is blank
    return tqdm(
        desc=what,
        total=total,
        unit=unit,
        unit_scale=True,
        leave=total is not None,
        file=sys.stderr,
        disable=not sys.stderr.isatty(),
        ncols=size.columns,
        nrows=size.lines,
    )
