"""Modules that are loaded when something of them is first used.

A command line loads every module that declares commands, and runs one action of them. What only
actions use takes ten times as long to load as all declarations.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType


@contextmanager
def lazy_imports() -> Iterator[None]:
    """Makes `from portico.package import module` in its block load the module at its first use, as
    `lazy from` does from Python 3.15 on (PEP 810). Names inside modules, and other packages, are
    loaded immediately."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder:  # `importlib.abc` takes too long to load
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith("portico."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec
