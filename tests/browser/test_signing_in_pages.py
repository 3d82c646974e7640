"""Signing in and out, by mouse, by keyboard, with and without a script."""

from urllib.parse import urlencode

import pytest
from playwright.async_api import expect

from browser.elsewhere import Elsewhere
from browser.looking import Desk, Person

pytestmark = pytest.mark.xdist_group("browser")


@pytest.mark.parametrize("script", [True, False])
async def test_signing_in_leads_where_one_wanted_to_go(
    desk: Desk, newcomer: Person, *, script: bool
) -> None:
    async with desk.looking(script=script) as page:
        await page.goto("keys")
        await expect(page).to_have_url(f"{desk.dashboard}/sign-in?next=%2Fdashboard%2Fkeys")
        await page.get_by_label("E-mail").fill(newcomer.email)
        await page.get_by_label("Password").fill(newcomer.password)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page).to_have_url(f"{desk.dashboard}/keys")
        await expect(page.get_by_text(newcomer.email)).to_be_visible()


async def test_the_cookie_is_out_of_reach_of_scripts_other_sites_and_plain_http(
    desk: Desk, newcomer: Person
) -> None:
    async with desk.looking() as page:
        await page.goto("sign-in")
        await page.get_by_label("E-mail").fill(newcomer.email)
        await page.get_by_label("Password").fill(newcomer.password)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page).to_have_url(desk.dashboard)
        cookies = await page.context.cookies()
        assert {cookie["name"] for cookie in cookies} == {"__Host-session", "__Host-device"}
        for cookie in cookies:
            assert (cookie["secure"], cookie["httpOnly"]) == (True, True)
            assert cookie["sameSite"] == "Strict"
            assert (cookie["domain"], cookie["path"]) == ("localhost", "/")
        assert await page.evaluate("document.cookie") == ""


async def test_signing_out_ends_the_session_and_the_way_back(desk: Desk) -> None:
    person = desk.person(name="Someone Leaving")
    async with desk.looking(person) as page:
        await page.goto("keys")
        (cookie,) = await page.context.cookies()
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("status")).to_have_text("You are signed out.")
        assert await page.context.cookies() == []
        await page.go_back()
        await expect(page).to_have_url(f"{desk.dashboard}/sign-in?next=%2Fdashboard%2Fkeys")
    with desk.client(cookies={"__Host-session": cookie["value"]}) as client:
        assert client.get("/v1/users/me").status_code == 401


async def test_a_link_on_another_site_finds_its_reader_still_signed_in(
    desk: Desk, newcomer: Person
) -> None:
    async with desk.looking(newcomer) as page:
        await page.route(
            "https://elsewhere.test/**",
            lambda route: route.fulfill(
                content_type="text/html", body=f'<a href="{desk.dashboard}/profile">Go</a>'
            ),
        )
        await page.goto("https://elsewhere.test/")
        await page.get_by_role("link", name="Go").click()
        await expect(page).to_have_url(f"{desk.dashboard}/profile")
        await expect(page.get_by_role("heading", name="Profile")).to_be_visible()


@pytest.mark.parametrize("decision", ["Allow", "Deny"])
async def test_an_application_may_send_its_user_on_to_another_host(
    desk: Desk, elsewhere: Elsewhere, decision: str
) -> None:
    callback = f"{elsewhere.origin}/callback"
    client = desk.installation.told(
        *("clients", "create", "--name", "Broker", "--redirect-uri", callback),
        *("--scope", "read:products"),
    )
    asked = {
        "response_type": "code",
        "client_id": client["client_id"],
        "redirect_uri": callback,
        "state": "kept",
    }
    elsewhere.page = '<!doctype html><link rel="icon" href="data:,"><title>Home</title>'
    elsewhere.sent_on = f"http://localhost:{elsewhere.server_port}/home"
    person = desk.person()
    async with desk.looking() as page:
        await page.goto(f"{desk.origin}/auth/authorize?{urlencode(asked)}")
        await page.get_by_label("E-mail").fill(person.email)
        await page.get_by_label("Password").fill(person.password)
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("button", name=decision).click()
        await expect(page).to_have_url(elsewhere.sent_on)
