"""The operator's guide names every action that the audit log may have."""

from documents import document
from portico.domain import events


def test_the_table_of_actions_is_complete() -> None:
    documented = [
        action
        for actions, _ in document("docs/operations.md").rows("audit actions")
        for action in actions.split(", ")
    ]
    known = {kind.action for kind in vars(events).values() if hasattr(kind, "action")}
    assert sorted(documented) == sorted(known)
