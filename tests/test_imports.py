"""What is loaded when: the command line answers before anything that takes time is loaded. And that
whoever installs the wheel is given all that it imports."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest

from portico.cli.commands import parser

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "portico"

RUN = """
import sys
from portico.cli.main import main
try:
    main(sys.argv[2:])
finally:
    loaded = [name for name, one in sys.modules.items() if type(one).__name__ != "_LazyModule"]
    open(sys.argv[1], "w").write(" ".join(loaded))
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
SLOW = ("app", "contract.", "engines", "mounts", "services.", "settings", "storage.")
"""How the modules of Portico begin that take time to load; packages themselves are empty."""

_CHOICES = [action.choices for action in parser()._actions]  # noqa: SLF001 - argparse shows them nowhere else
COMMANDS = next(choices for choices in _CHOICES if isinstance(choices, dict))
WORDS = [
    ["--help"],
    *([command, "--help"] for command in COMMANDS),
    ["usrs"],
    ["users", "create", "--role", "king"],
]


def loaded(told: Path, words: list[str]) -> set[str]:
    """The modules that a command has loaded when it ends."""
    subprocess.run([sys.executable, "-c", RUN, str(told), *words], capture_output=True, check=False)
    return set(told.read_text().split())


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_help_and_a_wrong_command_line_load_little(tmp_path: Path, words: list[str]) -> None:
    modules = loaded(tmp_path / "told", words)
    assert "portico.cli.commands" in modules
    assert modules & (HEAVY | {"msgspec", "importlib.metadata"}) == set()
    slow = tuple(f"portico.{start}" for start in SLOW)
    assert {name for name in modules if name.startswith(slow)} == set()


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["keys", "revoke", "x"],
        ["keys", "create", "--expires-in", "x"],
        ["clients", "create", "--redirect-uri", "x"],
    ],
    ids=" ".join,
)
def test_one_look_up_or_one_wrong_value_loads_no_server(tmp_path: Path, words: list[str]) -> None:
    assert loaded(tmp_path / "told", words) & HEAVY == set()


def test_few_imports_are_deferred_outside_the_command_line() -> None:
    deferred = [
        f"{file.relative_to(SOURCE)}:{inner.lineno}"
        for file in sorted(SOURCE.rglob("*.py"))
        if file.parent.name not in ("cli", "commands") and file.name != "commands.py"
        for function in ast.walk(ast.parse(file.read_text()))
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
        for node in ast.walk(ast.parse(file.read_text())):
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
