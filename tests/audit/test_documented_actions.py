"""The operator's guide names every action that the audit log may have."""

from importlib import import_module
from pkgutil import iter_modules

from documents import document
from portico.domain import events


def test_the_table_of_actions_is_complete() -> None:
    documented = [
        action
        for actions, _ in document("docs/operations/audit-log.md").rows("audit actions")
        for action in actions.split(", ")
    ]
    modules = (import_module(f"{events.__name__}.{m.name}") for m in iter_modules(events.__path__))
    kinds = (kind for module in modules for kind in vars(module).values())
    known = {kind.action for kind in kinds if hasattr(kind, "action")}
    assert sorted(documented) == sorted(known)
