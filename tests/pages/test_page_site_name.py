"""Pages, authenticator apps, passkeys and the reference call an installation by its own name."""

import json
import re
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest

from driving import Api
from pages.visiting import Visitor, signed_in, visitor

NAME = "Söhne & <Acme>"


@pytest.fixture
def environ() -> dict[str, str]:
    return {"PORTICO_SITE_NAME": f" {NAME} "}


def titles(page: str) -> tuple[str, str]:
    """The end of a page's title, and what stands beside the mark."""
    title = re.search(r"<title>(?:.* \N{EN DASH} )?(.*?)</title>", page)
    brand = re.search(r'class="brand"[^>]*><svg.*?</svg>\s*<bdi>([^<]*)<', page, re.DOTALL)
    assert title, page
    assert brand, page
    return unescape(title[1]), unescape(brand[1]).strip()


async def test_site_name_is_in_every_title_and_brand(api: Api) -> None:
    somebody: Visitor = await visitor(api)
    page = (await somebody.get("/sign-in")).text
    assert titles(page) == (NAME, NAME)
    assert "Portico" not in page
    _, somebody = await signed_in(api)
    for path in ("", "/sandbox", "/nothing"):
        page = (await somebody.get(path)).text
        assert titles(page) == (NAME, NAME)
        assert "<Acme>" not in page


async def test_site_name_is_issuer_of_authenticators_and_passkeys(api: Api) -> None:
    _, somebody = await signed_in(api)
    page = unescape((await somebody.get("/security/app")).text)
    found = re.search(r'href="(otpauth:[^"]+)"', page)
    assert found
    assert parse_qs(urlsplit(found[1]).query)["issuer"] == [NAME]
    page = (await somebody.get("/security/passkey")).text
    options = re.search(r'data-options="(.*?)"', page)
    assert options
    assert json.loads(unescape(options[1]))["rp"] == {"id": "localhost", "name": NAME}
