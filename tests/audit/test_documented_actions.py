"""The operator's guide names every action that the audit log may have."""

from documents import document
from portico.features.events.commands.audit import actions


def test_the_table_of_actions_is_complete() -> None:
    documented = [
        action
        for row, _ in document("docs/operations/audit-log.md").rows("audit actions")
        for action in row.split(", ")
    ]
    assert sorted(documented) == sorted(actions())
