"""Notes of changes, by noun."""

from importlib import import_module
from pkgutil import iter_modules


def actions() -> frozenset[str]:
    """Every action that the audit log may have."""
    modules = (import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__))
    kinds = (kind for module in modules for kind in vars(module).values())
    return frozenset(kind.action for kind in kinds if hasattr(kind, "action"))
