"""One server with real TLS, one Chromium that trusts its authority, and an administrator."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import async_playwright

from browser.elsewhere import Elsewhere, serving_elsewhere
from browser.looking import Desk, Person, chromium, trusting_home
from operating import Installation

KINDS = Path(__file__).parents[1] / "kinds" / "files"
SETTINGS = """
kinds = "{kinds}"
sign_up = "on"
sign_up_role = "viewer"
webhooks_allow = "127.0.0.0/8"
cors_origins = ["{elsewhere}"]
[plans.free]
per_minute = 1000
per_day = 1000
"""
"""Receivers of webhooks run here. All look from one address, which by the plan as it is has 30
requests a minute."""


@pytest.fixture(scope="session")
def elsewhere() -> Iterator[Elsewhere]:
    """An origin that `cors_origins` lists."""
    with serving_elsewhere() as server:
        yield server


@pytest.fixture(scope="session")
def seated(
    tmp_path_factory: pytest.TempPathFactory, elsewhere: Elsewhere
) -> Iterator[Installation]:
    """A running server."""
    empty = Installation(tmp_path_factory.mktemp("looked-at"))
    settings = SETTINGS.format(elsewhere=elsewhere.origin, kinds=KINDS)
    (empty.directory / "portico.toml").write_text(settings)
    prepared = Installation(
        empty.directory, facts=empty.told("init", "--admin-email", "ada@example.com")
    )
    with prepared.serving():
        yield prepared


@pytest.fixture(scope="session")
async def desk(
    seated: Installation, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Desk]:
    """The server with a browser in front of it."""
    home = trusting_home(tmp_path_factory.mktemp("home"), seated.data / "tls" / "ca.pem")
    facts = seated.facts["admin"]
    admin = Person(facts["id"], "Administrator", facts["email"], facts["password"])
    async with async_playwright() as playwright:
        browser = await chromium(playwright, home)
        yield Desk(seated, browser, admin)
        await browser.close()


@pytest.fixture(scope="session")
def newcomer(desk: Desk) -> Person:
    """Somebody who has done nothing yet."""
    return desk.person(name="Grace Hopper")
