"""The reference: complete, valid, of one piece with the document, and closed to the world."""

import gzip
import re
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urljoin

import pytest
from markupsafe import escape

from driving import Api, settings_for
from openapi.conftest import ADDRESS
from openapi.reading import Reading
from portico.openapi.webhooks import TAG as DELIVERIES
from portico.web.pages.files import DOCS_ASSETS, asset_path
from portico.web.reference.markdown import coloured, prose
from portico.web.reference.pages import PagePlace, Reference

STATIC = Path(__file__).parents[2] / "src/portico/web/pages/static"
LOCAL = (
    r"#[\w-]+$|(\.\./)?(docs(/\w+)?(#[\w-]+)?$|openapi\.json$"
    r"|static/[0-9a-f]{16}-(docs\.(css|js)|icon\.svg)$)|\w+$|https://localhost:8443/(auth/openapi\.json|dashboard)$"
)

PLACE = PagePlace(ADDRESS, home="https://localhost:8443/dashboard")


@pytest.fixture(scope="module")
def pages(described: dict[str, Any]) -> dict[str, Reading]:
    """All pages, by their addresses."""
    reference = Reference(described, PLACE)
    names = [operation["operationId"] for operation in operations(described)]
    return {
        f"{ADDRESS}/docs": Reading(reference.index()),
        **{
            f"{ADDRESS}/docs/{name}": Reading(reference.page(name)) for name in (*names, DELIVERIES)
        },
    }


def operations(described: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for item in described["paths"].values():
        yield from item.values()


def test_it_shows_every_operation_error_and_plan(
    pages: dict[str, Reading], described: dict[str, Any]
) -> None:
    index = pages[f"{ADDRESS}/docs"]
    for path, item in described["paths"].items():
        for method, operation in item.items():
            assert operation["operationId"] in index.values("id")
            shown = pages[f"{ADDRESS}/docs/{operation['operationId']}"]
            for text in (operation["summary"], path, method.upper()):
                assert text in index.text
                assert text in shown.text
            for status in operation["responses"]:
                assert f"{status} {HTTPStatus(int(status)).phrase}" in shown.text
    for error in described["x-errors"]:
        assert error["code"] in index.text
    assert "100,000" in index.text


def test_it_shows_how_an_operation_is_called(pages: dict[str, Reading]) -> None:
    for name, call in {
        "change_user": 'curl -X PATCH \\\n  -H "Authorization: Bearer $API_KEY"',
        "login": "curl -X POST \\\n  -H 'Content-Type: application/json'",
        "logout": "curl -X POST \\\n  -H 'Content-Type: application/json'",
        "post_user_info": 'curl -X POST \\\n  -H "Authorization: Bearer $ACCESS_TOKEN"',
        "token": "-d grant_type='authorization_code'",
        "revoke": "\n  https://localhost:8443/auth/revoke",
        "delete_session": 'curl -X DELETE \\\n  -b "__Host-session=$SESSION"',
    }.items():
        assert call in pages[f"{ADDRESS}/docs/{name}"].text


def test_it_shows_what_webhooks_are_sent(
    pages: dict[str, Reading], described: dict[str, Any]
) -> None:
    shown = pages[f"{ADDRESS}/docs/{DELIVERIES}"]
    for name in (*described["webhooks"], "webhook-signature", "Retry-After", "2XX", "410"):
        assert name in shown.text
    assert '"previous": {\n    "price": 19.95\n  }' in shown.text


def test_it_loads_and_links_nothing_of_another_host(pages: dict[str, Reading]) -> None:
    for shown in pages.values():
        links = shown.values("href", "src")
        assert links
        for link in links:
            assert re.match(LOCAL, link), link
        assert not shown.tags & {"style", "iframe", "object", "form", "base"}
        scripts = [link for tag, name, link in shown.attributes if (tag, name) == ("script", "src")]
        assert len(scripts) == shown.opened.count("script") == 1
        assert not shown.values("style", "onclick", "onload")
    for style in STATIC.glob("*.css"):
        assert not re.search(r"url\(|@import", style.read_text())


def test_every_link_to_a_page_or_into_one_leads_somewhere(pages: dict[str, Reading]) -> None:
    walked = set()
    for address, shown in pages.items():
        ids = shown.values("id")
        assert len(set(ids)) == len(ids)
        for link in shown.values("href"):
            there, anchor = urldefrag(urljoin(address, link))
            if "/docs" in there:
                assert there in pages, link
                assert not anchor or anchor in pages[there].values("id"), link
                walked.add(there)
    assert walked == set(pages)


def test_what_a_document_says_is_text_and_never_markup(described: dict[str, Any]) -> None:
    hostile = "<script>alert(1)</script>`<b>`"
    info = {**described["info"], "title": hostile, "description": hostile}
    text = Reference({**described, "info": info}, PLACE).index()
    assert "<script>" not in text
    assert "<code>&lt;b&gt;</code>" in text
    assert "<script" not in prose(f"```\n{hostile}\n```")
    assert "<script" not in coloured(f'{{"a": "{hostile}"}}')


@pytest.mark.parametrize("end", ["", "\\"])
def test_a_string_of_json_that_is_cut_off_is_one_to_its_end(end: str) -> None:
    """Else each of the quotes in it begins another search to the end of the text."""
    cut = r'"' + r"\"" * 20_000 + end
    marked = coloured(f'{{"a": {cut}')
    key = '<span class="key">&#34;a&#34;</span>'
    assert marked == f'{{{key}: <span class="text">{escape(cut)}</span>'


async def test_it_is_served_to_anyone_with_all_that_it_needs(api: Api) -> None:
    stranger = api.stranger()
    for address in (f"{ADDRESS}/docs", f"{ADDRESS}/docs/list_users"):
        answer = await stranger.get(address)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "x-ratelimit-limit" not in answer.headers
        links = {
            link for link in Reading(answer.text).values("href", "src") if "/dashboard" not in link
        }
        for link in {urljoin(address, link) for link in links}:
            file = await stranger.get(link)
            assert file.status_code == 200, link
            forever = "public, max-age=31536000, immutable"
            wanted = forever if "/static/" in link else "public, no-cache"
            assert file.headers["cache-control"] == wanted
        again = await stranger.get(address, headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


async def test_reference_answers_unknown_paths_with_a_page_to_anyone(api: Api) -> None:
    sandbox = "https://localhost:8443/sandbox/v1"
    for base, path in ((ADDRESS, "nothing"), (sandbox, "list_users/more"), (ADDRESS, "%00")):
        address = f"{base}/docs/{path}"
        answer = await api.stranger().get(address)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        assert "www-authenticate" not in answer.headers
        shown = Reading(answer.text)
        assert "Page not found" in shown.text
        assert f"{base}/docs" in {urljoin(address, link) for link in shown.values("href")}
        assert (await api.stranger().post(address)).status_code == 404


async def test_each_environment_says_which_it_is_and_leads_to_the_other_and_to_its_dashboard(
    api: Api,
) -> None:
    docs = {"Live": f"{ADDRESS}/docs", "Sandbox": "https://localhost:8443/sandbox/v1/docs"}
    home = "https://localhost:8443/dashboard"
    homes = {"Live": home, "Sandbox": f"{home}/sandbox"}
    for page in ("", "/read_user", "/deliveries"):
        for name, address in docs.items():
            text = (await api.stranger().get(address + page)).text
            switch = text.partition('class="switch"')[2].partition("</div>")[0]
            assert re.findall('href="(.*?)"', switch) == [one + page for one in docs.values()]
            assert re.findall(r'aria-current="true">(\w+)<', switch) == [name]
            assert f'<a href="{homes[name]}">← Dashboard</a>' in text
            for mark in ("(Sandbox)</title>", 'data-environment="sandbox">', ">Sandbox</span>"):
                assert (mark in text) is (name == "Sandbox"), mark


async def test_the_path_of_the_local_authority_is_shown_on_this_machine_alone(api: Api) -> None:
    whole = str(api.settings.local_authority)
    here, away = "127.0.0.1:50000", "203.0.113.9:50000"
    for client, host, is_local in (
        (here, "localhost:8443", True),
        (here, "127.0.0.1:8443", True),
        ("::1:50000", "[::1]:8443", True),
        (here, "api.example.com", False),  # a proxy that is not trusted
        (away, "localhost:8443", False),  # made up
        (away, "api.example.com", False),
    ):
        reader = api.stranger(client, host=host)
        for path in ("", "/read_user", "/delete_product"):
            page = await reader.get(f"{ADDRESS}/docs{path}")
            assert page.status_code == 200
            assert (whole in page.text) is is_local, (client, host)
            assert ("--cacert ca.pem" in page.text) is not is_local
            assert ("Examples trust <code>ca.pem</code>" in page.text) is not is_local


async def test_a_proxy_that_names_no_client_does_not_pass_for_a_reader_on_this_machine(
    tmp_path: Path,
) -> None:
    trusting = settings_for(tmp_path, {"PORTICO_TRUSTED_PROXIES": "127.0.0.0/8"})
    async with Api(trusting) as api:
        page = await api.stranger().get(f"{ADDRESS}/docs", headers={"x-forwarded-proto": "https"})
        assert page.status_code == 200
        assert "--cacert ca.pem" in page.text


async def test_its_pages_are_light_and_forbid_what_they_do_not_need(
    api: Api, pages: dict[str, Reading]
) -> None:
    stranger = api.stranger()
    loaded = [asset_path(name) for name in DOCS_ASSETS]
    files = [(await stranger.get(f"/{path}")).content for path in loaded]
    beside = sum(len(gzip.compress(file)) for file in files)
    for address, shown in pages.items():
        answer = await stranger.get(address)
        assert all(path in answer.text for path in loaded)
        assert len(gzip.compress(answer.content)) + beside < 30_000, address
        assert len(shown.opened) < 900, address
    policy = answer.headers["content-security-policy"]
    own = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    assert policy.startswith(f"{own}connect-src 'self'; base-uri 'none'; form-action 'self';")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
