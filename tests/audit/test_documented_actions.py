"""The operator's guide names every action that the audit log may have."""

import ast
from collections.abc import Iterator
from pathlib import Path

from documents import ROOT, document


def recorded(file: Path) -> Iterator[str]:
    """The actions that a file notes: each is a literal, the fourth argument of `record`."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "record" and len(node.args) == 4:
            action = node.args[3]
            assert isinstance(action, ast.Constant), file
            yield str(action.value)


def test_the_table_of_actions_is_complete() -> None:
    documented = [
        action
        for actions, _ in document("docs/operations.md").rows("audit actions")
        for action in actions.split(", ")
    ]
    known = {
        action for file in (ROOT / "src/portico/services").glob("*.py") for action in recorded(file)
    }
    assert sorted(documented) == sorted(known)
