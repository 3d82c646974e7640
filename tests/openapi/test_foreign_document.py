"""The reference of a document that Portico has not made: an OpenAPI 3.0 document with what other
documents have."""

import json
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from openapi.reading import Reading
from portico.web.reference.pages import PagePlace, Reference, Sandbox

ADDRESS = "https://api.test/v1/invoices"
SANDBOX = Sandbox(f"{ADDRESS}/test", f"{ADDRESS}/test/docs", "Test key", "From the *office*.")
DOCUMENT: dict[str, Any] = json.loads(Path(__file__).with_name("foreign.json").read_text())
READ, DELETE, CREATE = "invoices-read", "delete-invoices-invoice-id", "createInvoice"
SCAN, WEBHOOKS = "post-invoices-scan", "operations-webhooks"

SHOWN = {
    "docs": (
        "Invoices <&>", "What is owed.", "OpenAPI 3.0.3", "2.1", "See also: The handbook",
        "Production", "https://api.test/invoices", "https://eu.invoices.test/v2",
        "Read the handbook, then:", "Get a key.", "Send it:", "in X-Key", "or not at all",
        "# no heading echo <hello>", "Sizes", "small", "409", "paid It is paid already.",
        "key header X-Key Made by the office.", "tenant query tenant", "basic HTTP basic",
        "oauth OAuth 2.0 (clientCredentials)", "Every error has the headers X-Trace.",
        "invoices What customers get.", "GET Read an invoice /invoices/{invoice-id}",
        "DELETE DELETE /invoices/{invoice-id}", "POST createInvoice /invoices",
        "POST Read a scan /invoices/scan", "POST Webhooks",
    ),
    READ: (
        "As it was sent.", "See also: https://invoices.test/read", "Credentials: key and tenant.",
        "Path parameters invoice-id string (uuid) required", "as of string (date) required",
        "fields array of strings", "filter object", "X-Locale string required pattern ^[a-z]{2}$",
        "Cookies trace string deprecated", "The invoice. small large With X-Version.",
        '"total": 1', '"total": 9000', "Errors 4XX default", "It did not work.",
        '"title": "Not yours"',
        'curl \\ -H "X-Key: $API_KEY" \\ -H \'X-Locale: de\' \\ \'https://api.test/invoices/invoices/',
        "5f0c1e9a-7b2d-4c1e-9a7b-2d5f0c1e9a7b?as%20of=2026-01-31&tenant='\"$API_KEY\"",
    ),
    DELETE: ("204 No Content Gone.", "curl -X DELETE \\ https://api.test/invoices/invoices/"),
    CREATE: (
        "This operation is deprecated.", "Credentials: basic or oauth (invoices:write) or none.",
        "Body What it is about.", "note string or null at least 2 characters, at most 9 characters",
        "total number required In euros. more than 0", "kind string one of sale, refund,",
        "default sale", "payer object", "payer.name string", "payer.vat string pattern ^[A-Z]{2}",
        "labels object of strings", "replaces object", "lines array of objects at most 3",
        "lines[].text string", "Go 1.22 client.Create(invoice)", '"id": 5', '"kind": "sale"',
    ),
    SCAN: (
        "curl -X POST \\", "-F note='it'\\''s paid'", "scan string (binary)", "soon",
        "https://scan.invoices.test/invoices/scan",
    ),
    WEBHOOKS: ("X-Signature string Of the body.", "paid.total number required", "2XX", "Received.",
               "An invoice was paid Sent once.", '"paid": { "note": "text"'),
}  # fmt: skip
"""What each page must say, as words."""


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    reference = Reference(DOCUMENT, PagePlace(ADDRESS, sandbox=SANDBOX))
    names = [name for name in SHOWN if name != "docs"]
    return {"docs": reference.index(), **{name: reference.page(name) for name in names}}


def words(text: str) -> str:
    """The text of a page, with single spaces, in lower case."""
    return " ".join(Reading(text).text.split()).lower()


def test_page_of_a_foreign_document_shows_all_that_the_document_says(
    pages: dict[str, str],
) -> None:
    links = Reading(pages["docs"]).values("href")
    listed = {link.removeprefix("docs/") for link in links if link.startswith("docs/")}
    assert listed == {*SHOWN} - {"docs"}
    for name, texts in SHOWN.items():
        shown = words(pages[name])
        assert "portico" not in shown, name
        assert "javascript:" not in " ".join(Reading(pages[name]).values("href", "src")), name
        for told in texts:
            assert told.lower() in shown, told


def test_field_that_only_the_server_sets_is_not_among_those_to_send(pages: dict[str, str]) -> None:
    told = pages[CREATE].partition('class="told"')[2].partition('class="shown"')[0]
    assert "<code>id</code>" not in told
    assert "&#34;id&#34;" not in pages[CREATE].partition("<textarea")[2].partition("</textarea>")[0]


@pytest.mark.parametrize(
    ("name", "is_tried"),
    [(READ, True), (DELETE, True), (CREATE, True), (SCAN, False), (WEBHOOKS, False)],
)
def test_form_to_try_is_there_for_what_the_sandbox_can_be_sent(
    pages: dict[str, str], name: str, *, is_tried: bool
) -> None:
    assert (f'data-server="{SANDBOX.address}"' in pages[name]) is is_tried


def test_form_asks_for_each_credential_of_the_operation(pages: dict[str, str]) -> None:
    asked = Reading(pages[READ]).attributes
    names = [value for tag, name, value in asked if (tag, name) == ("input", "data-name")]
    assert names == ["X-Key", "tenant", "invoice-id", "as of", "fields", "filter", "X-Locale"]
    assert "From the <em>office</em>." in pages[READ]
    assert 'data-in="basic"' in pages[CREATE]
    assert '"total": 1' in unescape(pages[CREATE].partition("<textarea")[2].partition("<")[0])


def test_reference_without_a_sandbox_has_no_form() -> None:
    text = Reference(DOCUMENT, PagePlace(ADDRESS)).page(READ)
    assert "sandbox" not in words(text)
    assert "<form" not in text
