"""Signing in and out, by mouse, by keyboard, with and without a script."""

import re
from urllib.parse import urlencode

import pytest
from playwright.async_api import Route, expect

from browser.elsewhere import Elsewhere
from browser.looking import Desk, Person

pytestmark = pytest.mark.xdist_group("browser")

REFUSED = ("status of 422",)


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


async def test_an_e_mail_whose_domain_is_beyond_ascii_signs_in(desk: Desk) -> None:
    person = desk.person(domain="münchen.de")
    async with desk.looking() as page:
        await page.goto("sign-in?next=/dashboard/keys")
        await page.get_by_label("E-mail").fill(person.email)
        await page.get_by_label("Password").fill(person.password)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page).to_have_url(f"{desk.dashboard}/keys")


async def test_a_browser_that_keeps_no_cookies_is_told_so(desk: Desk, newcomer: Person) -> None:
    async def keep_none(route: Route) -> None:
        await route.fulfill(status=303, headers={"location": "/dashboard/keys"})

    async with desk.looking() as page:
        await page.route("**/sign-in", keep_none)
        await page.goto("keys")
        await page.get_by_label("E-mail").fill(newcomer.email)
        await page.get_by_label("Password").fill(newcomer.password)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_text("blocks cookies from this site")).to_be_visible()
        await expect(page).to_have_url(f"{desk.dashboard}/sign-in?next=%2Fdashboard%2Fkeys")


async def test_signing_in_takes_the_keyboard_alone(desk: Desk, newcomer: Person) -> None:
    async with desk.looking() as page:
        await page.goto("sign-in")
        await expect(page.get_by_label("E-mail")).to_be_focused()
        await page.keyboard.type(newcomer.email)
        await page.keyboard.press("Tab")
        await page.keyboard.type(newcomer.password)
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(desk.dashboard)
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        focused = await page.evaluate("document.activeElement.closest('main') !== null")
        assert focused, "the first stop after the skip link is in the page's own part"


async def test_a_wrong_password_is_refused_in_one_sentence_and_the_email_stays(
    desk: Desk, newcomer: Person
) -> None:
    said = []
    for email in (newcomer.email, "nobody@example.com"):
        async with desk.looking(expected=REFUSED) as page:
            await page.goto("sign-in?next=/dashboard/keys")
            await page.get_by_label("E-mail").fill(email)
            await page.get_by_label("Password").fill("Wrong-1234")
            await page.get_by_role("button", name="Sign in").click()
            said.append(await page.get_by_role("alert").inner_text())
            await expect(page.get_by_label("E-mail")).to_have_value(email)
            await expect(page.get_by_label("Password")).to_have_value("")
            await expect(page.locator("[name=next]")).to_have_value("/dashboard/keys")
            await expect(page).to_have_title(re.compile("^Error: Sign in"))
    assert said == ["The e-mail or the password is wrong."] * 2


async def test_reloading_a_refused_sign_in_neither_sends_it_again_nor_blames_cookies(
    desk: Desk, newcomer: Person
) -> None:
    async with desk.looking(expected=REFUSED) as page:
        await page.goto("sign-in?next=/dashboard/keys")
        await page.get_by_label("E-mail").fill(newcomer.email)
        await page.get_by_label("Password").fill("Wrong-1234")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page).to_have_title(re.compile("^Error: Sign in"))
        await page.reload()
        await expect(page).to_have_title(re.compile("^Sign in"))
        await expect(page.get_by_role("alert")).to_have_count(0)
        await page.get_by_label("E-mail").fill(newcomer.email)
        await page.get_by_label("Password").fill(newcomer.password)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page).to_have_url(f"{desk.dashboard}/keys")
        await page.go_back()
        await expect(page).to_have_url(f"{desk.dashboard}/keys")


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


async def test_whoever_is_signed_in_is_not_asked_again(desk: Desk, newcomer: Person) -> None:
    async with desk.looking(newcomer) as page:
        await page.goto("sign-in?next=/dashboard/profile")
        await expect(page).to_have_url(f"{desk.dashboard}/profile")


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
