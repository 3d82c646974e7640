"""Scripts by which shells complete command lines."""

from argparse import Action, ArgumentParser
from collections.abc import Iterator

import shtab

_PATHS = {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY}


def script(parser: ArgumentParser, shell: str) -> str:
    """The script of a shell for the command line that a parser reads."""
    for action in _actions(parser):
        if action.metavar in _PATHS:
            action.complete = _PATHS[action.metavar]  # type: ignore[attr-defined]
    return shtab.complete(parser, shell)


def _actions(parser: ArgumentParser) -> Iterator[Action]:
    """The arguments of a parser and of all its commands."""
    for action in parser._actions:  # noqa: SLF001 - shtab reads the same
        yield action
        if isinstance(action.choices, dict):
            for command in action.choices.values():
                yield from _actions(command)
