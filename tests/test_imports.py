"""What is loaded when: the command line answers before anything that takes time is loaded. And that
whoever installs the wheel is given all that it imports."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest

from portico.cli.commands import parser

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "portico"

RUN = """
import json, sys
from portico.cli.main import main
told = {}
for words in json.load(open(sys.argv[1])):
    try:
        main(words)
    except SystemExit:
        pass
    loaded = [name for name, one in sys.modules.items() if type(one).__name__ != "_LazyModule"]
    told[" ".join(words)] = loaded
json.dump(told, open(sys.argv[1], "w"))
"""

HEAVY = {
    "aiohttp",
    "aiosmtplib",
    "apsw",
    "asyncio",
    "asyncpg",
    "cryptography",
    "email_validator",
    "granian",
    "jinja2",
    "joserfc",
    "nacl",
    "prometheus_client",
    "shtab",
    "sqlite3",
    "ssl",
    "tqdm",
    "uvloop",
    "valkey",
}
SLOW = ("app", "engines", "mounts", "settings", "web.")
"""How the modules of Portico begin that take time to load; packages themselves are empty."""

_CHOICES = [action.choices for action in parser()._actions]  # noqa: SLF001 - argparse shows them nowhere else
COMMANDS = next(choices for choices in _CHOICES if isinstance(choices, dict))
WORDS = [
    ["--help"],
    *([command, "--help"] for command in COMMANDS),
    ["usrs"],
    ["users", "create", "--role", "king"],
]
VALUES = [
    ["--version"],
    ["keys", "revoke", "x"],
    ["keys", "create", "--expires-in", "x"],
    ["clients", "create", "--redirect-uri", "x"],
]


def loaded(file: Path, lines: list[list[str]]) -> dict[str, set[str]]:
    """The modules that are loaded after each of these command lines, run one after the other."""
    file.write_text(json.dumps(lines))
    subprocess.run([sys.executable, "-c", RUN, str(file)], capture_output=True, check=True)
    return {words: set(modules) for words, modules in json.loads(file.read_text()).items()}


def test_help_and_a_wrong_command_line_load_little(tmp_path: Path) -> None:
    slow = tuple(f"portico.{start}" for start in SLOW)
    for words, modules in loaded(tmp_path / "told", WORDS).items():
        assert "portico.cli.commands" in modules
        assert modules & (HEAVY | {"msgspec", "importlib.metadata"}) == set(), words
        assert {name for name in modules if name.startswith(slow)} == set(), words


def test_command_that_looks_something_up_loads_no_server(tmp_path: Path) -> None:
    for words, modules in loaded(tmp_path / "told", VALUES).items():
        assert modules & HEAVY == set(), words


@cache
def nodes(file: Path) -> list[ast.AST]:
    """The nodes of a module."""
    return [*ast.walk(ast.parse(file.read_text()))]


def test_few_imports_are_deferred_outside_the_command_line() -> None:
    deferred = [
        f"{file.relative_to(SOURCE)}:{inner.lineno}"
        for file in sorted(SOURCE.rglob("*.py"))
        if file.parent.name not in ("cli", "commands") and file.name != "commands.py"
        for function in nodes(file)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(function)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    ]
    assert len(deferred) <= 8, deferred


def normalised(distribution: str) -> str:
    """The name of a distribution, as the Python Packaging User Guide compares names."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def imported(source: Path) -> set[str]:
    """The packages that the modules of a directory import, but for what Python has."""
    found: set[str] = set()
    for file in source.rglob("*.py"):
        for node in nodes(file):
            if isinstance(node, ast.Import):
                found |= {one.name.partition(".")[0] for one in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - {"portico", "portico_client"}


@pytest.mark.parametrize(
    ("source", "project"),
    [(SOURCE, ROOT), (ROOT / "clients/python/src", ROOT / "clients/python")],
    ids=["portico", "portico-client"],
)
def test_all_that_is_imported_is_declared(source: Path, project: Path) -> None:
    told = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    declared = chain(told["dependencies"], *told["optional-dependencies"].values())
    names = {normalised(re.split(r"[^\w.-]", one)[0]) for one in declared}
    having = packages_distributions()
    lacking = {one for one in imported(source) if not names & {*map(normalised, having[one])}}
    assert lacking == set()
