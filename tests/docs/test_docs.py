"""What the documents say is so: tables, links, names, and commands that the real parser takes."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from documents import ROOT, Document, document, every_document
from portico.cli.commands import parser
from portico.cli.outcome import MISUSED, WELL, WRONG
from portico.core.plans import DEFAULT_PLANS
from portico.core.scopes import ROLE_SCOPES, SCOPES
from portico.data.postgres.engine import POINT_CONNECTIONS, SLOW_CONNECTIONS, WRITE_CONNECTIONS
from portico.settings import CLIENTS_VARIABLES, CONFIG_VARIABLE, SETTINGS, load, markdown_tables
from portico.web.problems import STATUS

SETTINGS_GUIDE = document("docs/operations/settings.md")
API = document("docs/api.md")
DOCUMENTS = every_document()
INTERRUPTED = 130
PAGES = {".html", ".js", ".py"}

ALL = pytest.mark.parametrize("doc", DOCUMENTS, ids=lambda doc: doc.name)


def test_the_tables_of_settings_are_those_that_the_settings_make() -> None:
    assert SETTINGS_GUIDE.marked("settings") == markdown_tables()


def test_every_error_is_in_the_table_with_its_status_and_code() -> None:
    documented = [(int(status), code) for status, code, _ in API.rows("errors")]
    assert documented == sorted(documented, key=lambda row: row[0])
    assert sorted(documented) == sorted((status, kind.code) for kind, status in STATUS.items())


def test_the_table_of_plans_has_the_default_limits() -> None:
    documented = {
        name: (int(minute.replace(",", "")), int(day.replace(",", "")))
        for name, minute, day in API.rows("plans")
    }
    plans = DEFAULT_PLANS.items()
    assert documented == {name: (plan.per_minute, plan.per_day) for name, plan in plans}


def test_the_table_of_permissions_is_that_of_the_roles() -> None:
    documented = [
        (scope, {role for role, cell in zip(ROLE_SCOPES, cells, strict=True) if cell == "yes"})
        for scope, *cells in API.rows("permissions")
    ]
    assert documented == [
        (scope, {role for role, scopes in ROLE_SCOPES.items() if scope in scopes})
        for scope in SCOPES
    ]


def test_the_connections_that_a_process_keeps_are_those_that_it_may_have() -> None:
    guide = document("docs/operations/postgresql.md")
    groups = {what: int(most) for what, most in guide.rows("connections")}
    sizes = [POINT_CONNECTIONS, WRITE_CONNECTIONS, SLOW_CONNECTIONS]
    assert [*groups.values()][:3] == sizes
    assert f"up to {2 * sum(groups.values())} connections" in guide.text


def test_what_one_may_see_when_something_is_wrong_is_what_is_told() -> None:
    text = document("docs/operations/troubleshooting.md").text
    messages = re.findall(r'^(?:\| |- \d{3} and )"(.+?)"', text, re.MULTILINE)
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "src/portico").rglob("*.py"))
    assert {message for message in messages if message not in source} == set()
    assert {"The database's disk is full", "The database's file is gone"} <= set(messages)


def test_the_table_of_exit_codes_is_complete() -> None:
    codes = [int(code) for code, _ in document("docs/operations/running.md").rows("exit codes")]
    assert codes == [WELL, WRONG, MISUSED, INTERRUPTED]


def test_the_table_of_decisions_has_each_with_its_title() -> None:
    rows = []
    for path in sorted((ROOT / "docs/decisions").glob("[0-9]*.md")):
        number, title = path.read_text("utf-8").splitlines()[0].removeprefix("# ").split(" ", 1)
        rows.append(f"| [{number}]({path.name}) | {title} |")
    text = (ROOT / "docs/decisions/README.md").read_text("utf-8")
    assert re.findall(r"\| \[\d{4}\].*", text) == rows


@pytest.mark.parametrize("name", ["docs/catalogue.md", "docs/requests.md"])
def test_every_word_in_bold_of_a_guide_to_the_dashboard_is_on_its_pages(name: str) -> None:
    source = ROOT / "src/portico"
    files = [path for path in (source / "web/pages").rglob("*") if path.suffix in PAGES]
    files += source.rglob("templates/*.html")
    text = "\n".join(path.read_text("utf-8") for path in files)
    for blank, word in (("{{ kind.words }}", "product"), ("{{ many }}", "products")):
        text = text.replace(blank, word)
    words = re.findall(r"\*\*(.+?)\*\*", document(name).prose, re.DOTALL)
    assert {word for word in words if word.lower() not in text.lower()} == set()
    assert words


@ALL
def test_every_link_leads_somewhere(doc: Document) -> None:
    for link in doc.links:
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (doc.path.parent / path).resolve() if path else doc.path
        assert target.exists(), link
        if anchor:
            assert anchor in document(str(target.relative_to(ROOT))).anchors, link


def variables(text: str) -> set[str]:
    """The variables of Portico's that a text names; `PORTICO_*` is none."""
    return set(re.findall(r"\bPORTICO_[A-Z_]*[A-Z]\b", text))


def test_every_variable_that_is_named_exists() -> None:
    known = {CONFIG_VARIABLE, *CLIENTS_VARIABLES, *(setting.variable for setting in SETTINGS)}
    texts = {doc.name: doc.text for doc in DOCUMENTS}
    texts |= {
        str(path.relative_to(ROOT)): path.read_text("utf-8")
        for path in (ROOT / "deploy").iterdir()
        if path.is_file()
    }
    assert {name: found for name, text in texts.items() if (found := variables(text) - known)} == {}
    assert CONFIG_VARIABLE in variables(SETTINGS_GUIDE.text), "the pattern finds what is there"


LAYERS = "|".join(path.stem for path in (ROOT / "src/portico").glob("[a-z]*/"))
TOP = "bench|clients|deploy|docs|requirements|script|src|tests"


def resolve(name: str) -> object:
    """What a dotted name below the package `portico` names."""
    parts = name.split(".")
    found: object = import_module(f"portico.{parts[0]}")
    for number, part in enumerate(parts[1:], start=2):
        if not hasattr(found, part):
            import_module(f"portico.{'.'.join(parts[:number])}")
        found = getattr(found, part)
    return found


@ALL
def test_every_file_and_name_of_the_program_exists(doc: Document) -> None:
    for span in doc.spans:
        word = span.split()[0]
        if "NOUN" in word:  # stands for any
            continue
        if re.match(rf"(?:{TOP})/", word):
            assert (ROOT / word).exists(), word
        elif re.match(rf"(?:{LAYERS})/[\w/]+\.py$", word):
            assert (ROOT / "src/portico" / word).exists(), word
        elif re.match(rf"(?:{LAYERS})\.\w+(?:\.\w+)*$", word) and not word.endswith(".py"):
            assert resolve(word) is not None
    for block in doc.blocks:
        for script in re.findall(r"\bscript/\w+", block.text):
            assert (ROOT / script).exists(), script


def whole_commands(doc: Document) -> list[list[str]]:
    """The command lines of `portico` in blocks of shell, as arguments."""
    found: list[list[str]] = []
    for block in doc.blocks:
        if block.language != "sh":
            continue
        lines = block.text.replace("\\\n", " ").splitlines()
        commands = (line for line in lines if line.startswith("portico "))
        found += [shlex.split(line, comments=True)[1:] for line in commands]
    return found


@ALL
def test_every_command_line_is_one_that_the_parser_takes(doc: Document) -> None:
    for arguments in whole_commands(doc):
        assert parser().parse_args(arguments).run, arguments


@ALL
def test_every_command_in_a_sentence_exists(
    doc: Document, capsys: pytest.CaptureFixture[str]
) -> None:
    for span in doc.spans:
        words = shlex.split(span) if span.startswith("portico ") else []
        if words:
            help_of = [word for word in words[1:] if not word.isupper()]
            with pytest.raises(SystemExit) as left:
                parser().parse_args([*help_of, "--help"])
            assert left.value.code == 0, (span, capsys.readouterr().err)


def test_every_command_is_in_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["--help"])
    verbs = set(re.findall(r"^    (\w+)  ", capsys.readouterr().out, re.MULTILINE))
    named = {arguments[0] for doc in DOCUMENTS for arguments in whole_commands(doc)}
    named |= {span.split()[1] for doc in DOCUMENTS for span in doc.spans if "portico " in span}
    assert verbs - named == set()


def test_every_sample_of_settings_loads(tmp_path: Path) -> None:
    samples = [block for doc in DOCUMENTS for block in doc.blocks if block.language == "toml"]
    (tmp_path / "invoices.json").write_text(
        '{"openapi": "3.1.0", "info": {"title": "Invoices", "version": "1"}, "paths": {}}'
    )
    for sample in samples:
        (tmp_path / "portico.toml").write_text(sample.text)
        load({}, {}, tmp_path)
    assert len(samples) > 3
