"""Other people's programs take the documents as they are: linters find nothing, and types made of
them say what the API takes and answers."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from documents import ROOT
from node_packages import node_packages
from portico.core.plans import DEFAULT_PLANS
from portico.mounts import AUTH, V1
from portico.openapi.document import DocumentPart, auth_document, document

TOOLS = Path(__file__).parent / "node"
BASE, AUTH_BASE = "https://portico.test/v1", "https://portico.test/auth"
"""No localhost, which Redocly finds odd in a server's address."""

TYPES = ROOT / "clients/typescript/src/schema"
ORIGIN = "https://localhost:8443"
"""What the client for TypeScript has of them, as the commands make it where nothing is set."""


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with both documents, as the server serves them."""
    node_packages(TOOLS)
    directory = tmp_path_factory.mktemp("documents")
    for name, described in (
        (
            "api",
            document(
                DocumentPart(BASE, V1),
                DocumentPart(AUTH_BASE, ()),
                DEFAULT_PLANS,
                site_name="Portico",
            ),
        ),
        (
            "auth",
            auth_document(DocumentPart(AUTH_BASE, AUTH), BASE, DEFAULT_PLANS, site_name="Portico"),
        ),
    ):
        (directory / f"{name}.json").write_text(json.dumps(described))
    return directory


def run(directory: Path, program: Path, *arguments: str) -> str:
    """What a program for Node prints."""
    done = subprocess.run(
        ["node", program, *arguments], cwd=directory, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_linters_find_nothing_by_the_rules_that_they_recommend(
    documents: Path, request: pytest.FixtureRequest
) -> None:
    more = ["--long"] if request.config.getoption("--long") else []
    assert json.loads(run(documents, TOOLS / "lint.js", "api.json", "auth.json", *more)) == []


def test_openapi_typescript_makes_types_of_what_is_needed_and_answered(documents: Path) -> None:
    modules = TOOLS / "node_modules"
    for name in ("api", "auth"):
        generator = modules / "openapi-typescript" / "bin" / "cli.js"
        run(documents, generator, f"{name}.json", "-o", f"{name}.ts")
        made = (documents / f"{name}.ts").read_text("utf-8").replace("https://portico.test", ORIGIN)
        kept = (TYPES / f"{name}.ts").read_text("utf-8")
        assert kept == made, f"run: portico openapi, openapi-typescript, into {TYPES}"
    shutil.copy(TOOLS / "usages.ts", documents)
    compiler = modules / "typescript" / "bin" / "tsc"
    run(documents, compiler, "--noEmit", "--strict", "--lib", "es2022", "usages.ts")
