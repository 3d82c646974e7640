"""A service's own OpenAPI document: what the reference shows of it, and what stops the start."""

from pathlib import Path

import pytest

from declared_services import DECLARED
from driving import Api
from operating import Installation
from portico.settings import SettingError, load

DOCUMENT = """
openapi: 3.1.0
info:
  title: Invoices
  version: "2026-01"
  description: What customers owe.
paths:
  /{number}:
    get:
      operationId: readInvoice
      summary: Read an invoice
      parameters:
        - {name: number, in: path, required: true, schema: {type: integer}, example: 7}
      responses:
        200:
          description: The invoice.
          content:
            application/json:
              example: {due: 2026-01-31}
"""
LIVE = "https://localhost:8443/v1"
BELOW = "/docs/services/invoices"


@pytest.fixture
def environ() -> dict[str, str]:
    """No page reads a row."""
    return {}


@pytest.fixture
def declared(tmp_path: Path) -> str:
    (tmp_path / "invoices.yaml").write_text(DOCUMENT)
    return DECLARED.replace("[services.invoices]", '[services.invoices]\nopenapi = "invoices.yaml"')


async def test_a_services_document_is_a_reference_of_its_own_beside_porticos(api: Api) -> None:
    anybody = api.stranger()
    own = (await anybody.get(f"{LIVE}/docs")).text
    assert f'<a href="{LIVE}{BELOW}/docs">Invoices</a>' in own
    index = await anybody.get(f"{LIVE}{BELOW}/docs")
    assert index.status_code == 200
    for shown in ("What customers owe.", f"{LIVE}/invoices", "An API key or a token.", "2026-01"):
        assert shown in index.text
    assert f'<a href="{LIVE}/docs">Portico</a>' in index.text
    page = (await anybody.get(f"{LIVE}{BELOW}/docs/readInvoice")).text
    assert "Read an invoice" in page
    assert f"{LIVE}/invoices/7" in page
    assert "2026-01-31" in page
    document = (await anybody.get(f"{LIVE}{BELOW}/openapi.json")).json()
    assert document["servers"] == [{"url": f"{LIVE}/invoices"}]
    assert (await anybody.get(f"{LIVE}{BELOW}/docs/nothing")).status_code == 404


async def test_its_operations_are_tried_in_the_sandbox_which_has_its_own(api: Api) -> None:
    anybody, sandbox = api.stranger(), "https://localhost:8443/sandbox/v1"
    for base in (LIVE, sandbox):
        page = (await anybody.get(f"{base}{BELOW}/docs/readInvoice")).text
        assert f'data-server="{sandbox}/invoices" data-path="/{{number}}"' in page


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.yaml", None, "cannot be read"),
        ("a.yaml", "a: [", "is not YAML"),
        ("a.json", "{", "is not JSON"),
        ("a.yaml", "- a", "must be an OpenAPI document 3.0 or 3.1"),
        ("a.yaml", DOCUMENT.replace("3.1.0", "2.0.0"), "must be an OpenAPI document"),
        ("a.yaml", DOCUMENT.replace("paths:", "path:"), "must be an OpenAPI document"),
        ("a.yaml", DOCUMENT + "x-at: !!binary aGk=\n", "has no place in JSON"),
        (
            "a.yaml",
            DOCUMENT.replace("schema: {type: integer}", "schema: {$ref: '#/components/no'}"),
            "has nothing at #/components/no",
        ),
    ],
)
def test_a_document_that_cannot_be_shown_is_one_fault(
    tmp_path: Path, name: str, text: str | None, says: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    named = f'[services.invoices]\nopenapi = "{name}"'
    (tmp_path / "portico.toml").write_text(DECLARED.replace("[services.invoices]", named))
    with pytest.raises(SettingError) as caught:
        load({}, {}, tmp_path)
    assert "services.invoices.openapi" in str(caught.value)
    assert says in str(caught.value)


def test_a_document_that_cannot_be_shown_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(DOCUMENT.replace("get:", "get: []\n    put:"))
    named = '[services.invoices]\nopenapi = "a.yaml"'
    (tmp_path / "portico.toml").write_text(DECLARED.replace("[services.invoices]", named))
    code, said = Installation(tmp_path).refused("serve")
    assert (code, "services.invoices.openapi cannot be shown" in said) == (2, True), said
