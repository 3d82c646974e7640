"""Chromium goes to another provider and comes back: another installation of Portico's own."""

import shutil
from collections.abc import Iterator

import apsw
import pytest
from playwright.async_api import Page, expect

from browser.looking import Desk, Person, faults
from operating import Installation, free_port

pytestmark = pytest.mark.xdist_group("browser")

ELSEWHERE = "127.0.0.1"
"""Another host than the desk's, so that they share no cookies."""


@pytest.fixture(scope="module")
def believing(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation whose people sign in at the desk's too."""
    tmp_path = tmp_path_factory.mktemp("believing")
    port = free_port()
    dashboard = f"https://{ELSEWHERE}:{port}/dashboard"
    client = desk.installation.told(
        *("clients", "create", "--name", "Other", "--scope", "openid"),
        *("--redirect-uri", f"{dashboard}/sign-in/back/portico"),
    )
    (tmp_path / "portico.toml").write_text(
        f'dashboard_url = "{dashboard}"\n[sign_in.portico]\nissuer = "{desk.origin}/auth"\n'
        f'client_id = "{client["client_id"]}"\nclient_secret = "{client["client_secret"]}"\n'
    )
    shutil.copytree(desk.installation.data / "tls", tmp_path / "data" / "tls")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SSL_CERT_FILE", str(desk.installation.data / "tls" / "ca.pem"))
        other = Installation(tmp_path, port=port)
        other.told("init")
        with other.serving():
            yield other


async def fill(page: Page, email: str, password: str) -> None:
    """Signs in at the page that is there."""
    await page.get_by_label("E-mail").fill(email)
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name="Sign in", exact=True).click()


def verify_email(desk: Desk, person: Person) -> None:
    """Marks somebody's e-mail as verified."""
    database = apsw.Connection(str(desk.installation.data / "live.db"))
    database.set_busy_timeout(5_000)
    database.execute("UPDATE users SET email_verified_at = 1 WHERE id = ?", [person.id])
    database.close()


async def test_people_sign_in_with_another_portico(desk: Desk, believing: Installation) -> None:
    there: Person = desk.person()
    verify_email(desk, there)
    made = believing.told("users", "create", "--email", there.email, "--name", "Grace Hopper")
    dashboard = f"https://{ELSEWHERE}:{believing.port}/dashboard"
    async with desk.looking() as page:
        await page.goto(f"{dashboard}/sign-in?next=/dashboard/keys")
        await page.get_by_role("button", name="Sign in with Portico").click()
        await page.wait_for_url(f"{desk.origin}/auth/sign-in?*")
        await fill(page, there.email, there.password)
        await page.get_by_role("button", name="Allow").click()
        told = f"No account is linked to {there.email} at Portico yet."
        await expect(page.get_by_role("status")).to_contain_text(told)
        await fill(page, there.email, made["password"])
        question = page.get_by_role("heading", name=f"Link the Portico account {there.email}?")
        await expect(question).to_be_visible()
        assert await faults(page) == []
        await page.get_by_role("button", name="Link", exact=True).press("Enter")
        await expect(page).to_have_url(f"{dashboard}/keys")
        await page.context.clear_cookies(domain=ELSEWHERE)
        await page.goto(f"{dashboard}/sign-in")
        await page.get_by_role("button", name="Sign in with Portico").click()
        await expect(page).to_have_url(dashboard)
        await expect(page.get_by_text(there.email)).to_be_visible()


async def test_signing_in_at_another_host_than_the_dashboards_leads_to_that(
    desk: Desk, believing: Installation
) -> None:
    there = desk.person()
    made = believing.told("users", "create", "--email", there.email, "--name", "Grace Hopper")
    dashboard = f"https://{ELSEWHERE}:{believing.port}/dashboard"
    async with desk.looking() as page:
        await page.goto(f"https://localhost:{believing.port}/auth/sign-in")
        await fill(page, there.email, made["password"])
        await expect(page).to_have_url(f"{dashboard}/sign-in?next=%2Fdashboard")
