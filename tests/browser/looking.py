"""Looks at pages as people do: in Chromium, over real TLS, as somebody who may be signed in."""

import contextlib
import os
import secrets
import ssl
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import axe_playwright_python.base
import httpx
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Playwright,
    expect,
)

from operating import TIMEOUT_SECONDS, Installation

CHROMIUM = "/usr/bin/chromium-headless-shell"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MILLISECONDS = 60_000
expect.set_options(timeout=PATIENCE_MILLISECONDS)
AXE = axe_playwright_python.base.AXE_FILE_PATH.read_text()
FAULTS = """([parts, values]) => axe.run(
    parts, {resultTypes: ['violations'], ...values && {runOnly: {type: 'rule', values}}}
).then(
    found => found.violations.flatMap(({id, help, nodes}) => nodes.map(
        node => `${id}: ${help}: ${node.html} ${node.failureSummary}`)))"""
CUT_OFF = """() => {
    const root = document.documentElement, found = [];
    const lines = (one) => {
        const range = document.createRange();
        range.selectNodeContents(one);
        return new Set([...range.getClientRects()].map(({bottom}) => Math.round(bottom))).size;
    };
    const meant = `pre, textarea, input, select, thead, thead *, .hidden, svg *, .lines span,
        .three, .records :is(td, th), .records a`;
    const beside = root.scrollWidth - root.clientWidth;
    if (beside > 0) found.push(`the page scrolls sideways by ${beside} px`);
    for (const one of document.body.querySelectorAll("*")) {
        const wide = one.clientWidth && one.scrollWidth > one.clientWidth + 1;
        const high = one.clientHeight && one.scrollHeight > one.clientHeight + 1;
        if (!wide && !high || one.matches(meant)) continue;
        const {overflowX, overflowY} = getComputedStyle(one);
        if (wide && overflowX !== "visible" || high && overflowY === "hidden")
            found.push(`cut off: ${one.outerHTML.slice(0, 150)}`);
    }
    for (const one of document.querySelectorAll(".card table"))
        if (one.scrollWidth > one.parentElement.clientWidth + 1)
            found.push(`wider than its place: ${one.outerHTML.slice(0, 150)}`);
    for (const one of document.querySelectorAll("main :is(h2:not(.hidden), .card)")) {
        const before = one.previousElementSibling;
        if (!before || before.matches(".crumb, .hidden")) continue;
        const {height, bottom} = before.getBoundingClientRect();
        const apart = one.getBoundingClientRect().top - bottom;
        if (height && apart > -1 && apart < 12)
            found.push(`sticks to what is above: ${one.outerHTML.slice(0, 150)}`);
    }
    for (const one of document.querySelectorAll("h1, .sheet td code"))
        if (!/\\s/.test(one.textContent) && one.textContent.length < 16 && lines(one) > 1)
            found.push(`broken within a word: ${one.textContent}`);
    return found;
}"""
"""Themes differ in colours alone. Code, and what stands in one line of a list, may be longer than
its place."""

HTMX_THERE = """new Promise(there => {
    const look = () => window.htmx ? there() : requestAnimationFrame(look);
    look();
})"""
AT_REST = """document.dispatchEvent(
    Object.defineProperty(new PointerEvent("pointermove"), "timeStamp", {value: -1000})
)"""
"""The mouse has come to the page long ago."""
SHOWN = """addEventListener("pageshow", (event) => {
    Object.defineProperty(event, "timeStamp", {value: %s});
});"""
"""When every page was shown."""
STAYS = f"""{SHOWN % -1000} addEventListener("DOMContentLoaded", () => {{
    const rest = () => {AT_REST};
    rest();
    addEventListener("focus", rest);
}})"""
"""Every page was shown long ago, with the mouse there."""
COMES = SHOWN % "Infinity"
"""However long a test takes, the page was only now shown."""

LEFT = ("htmx:afterRequest", "htmx:sendAbort")
"""What htmx complains of where a request ends with its page. One that fails has other words too."""

WIDTHS = (1280, 1030, 840, 768, 360)
"""The narrowest of each range between two breakpoints of the style sheet."""
WIDE = (1280, 900)
PHONE = (390, 844)


def trusting_home(directory: Path, authority: Path) -> Path:
    """A home in which Chromium trusts an authority."""
    store = directory / ".pki" / "nssdb"
    store.mkdir(parents=True)
    database = f"sql:{store}"
    subprocess.run(["certutil", "-N", "-d", database, "--empty-password"], check=True)
    subprocess.run(
        ["certutil", "-A", "-d", database, "-n", "Portico", "-t", "C,,", "-i", authority],
        check=True,
    )
    return directory


async def chromium(playwright: Playwright, home: Path) -> Browser:
    """A running browser."""
    return await playwright.chromium.launch(
        executable_path=CHROMIUM, args=list(FLAGS), env={**os.environ, "HOME": str(home)}
    )


@dataclass(frozen=True)
class Person:
    """Somebody with an account."""

    id: int
    name: str
    email: str
    password: str


@dataclass
class Desk:
    """Where tests sit: the server, the browser, and whoever signs in."""

    installation: Installation
    browser: Browser
    admin: Person
    _cookies: dict[int, str] = field(default_factory=dict)
    _idle: dict[bool, list[BrowserContext]] = field(default_factory=lambda: {True: [], False: []})
    """Those that nobody uses, with script and without."""

    @property
    def origin(self) -> str:
        """The scheme, host and port of everything."""
        return f"https://localhost:{self.installation.port}"

    @property
    def dashboard(self) -> str:
        """Where the dashboard begins."""
        return f"{self.origin}/dashboard"

    def client(self, **options: Any) -> httpx.Client:
        """A client that trusts the server."""
        authority = self.installation.data / "tls" / "ca.pem"
        context = ssl.create_default_context(cafile=authority)
        return httpx.Client(
            base_url=self.origin, verify=context, timeout=TIMEOUT_SECONDS, **options
        )

    def person(
        self, role: str = "viewer", name: str = "Grace Hopper", domain: str = "example.com"
    ) -> Person:
        """A new account."""
        mark = secrets.token_hex(4)
        person = {"name": name, "email": f"{mark}@{domain}", "password": f"Aa1-{mark}"}
        with self.client(headers={"authorization": f"Bearer {self.installation.key}"}) as client:
            answer = client.post("/v1/users", json={**person, "role": role})
        assert answer.status_code == 201, answer.text
        return Person(id=answer.json()["data"]["id"], **person)

    def cookie(self, person: Person, *, anew: bool = False) -> str:
        """The session cookie of somebody who signs in: once, unless `anew`."""
        if anew or person.id not in self._cookies:
            with self.client() as client:
                credentials = {"email": person.email, "password": person.password}
                answer = client.post("/v1/sessions", json=credentials)
                assert answer.status_code == 201, answer.text
                secret = client.cookies["__Host-session"]
            if anew:
                return secret
            self._cookies[person.id] = secret
        return self._cookies[person.id]

    @asynccontextmanager
    async def looking(
        self,
        person: Person | None = None,
        *,
        size: tuple[int, int] = WIDE,
        dark: bool = False,
        script: bool = True,
        anew: bool = False,
        hasty: bool = False,
        expected: Sequence[str] = (),
    ) -> AsyncIterator[Page]:
        """A page of a browser that knows nobody, signed in as somebody. Every page was shown long
        before a button is pressed there, with the mouse on it, unless they are `hasty`.

        Fails for whatever the console complains of, unless it holds one of `expected` or is of a
        request that was under way as its page was left.
        """
        context = await self._context(script=script)
        if person is not None:
            secret = self.cookie(person, anew=anew)
            await context.add_cookies(
                [
                    {
                        "name": "__Host-session",
                        "value": secret,
                        "url": self.origin,
                        "secure": True,
                        "httpOnly": True,
                        "sameSite": "Strict",
                    }
                ]
            )
        complaints: list[str] = []
        page = await context.new_page()
        await page.add_init_script(COMES if hasty else STAYS)
        await page.set_viewport_size({"width": size[0], "height": size[1]})
        await page.emulate_media(color_scheme="dark" if dark else "light", reduced_motion="reduce")

        def note(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning") and not any(
                words in message.text for words in (*LEFT, *expected)
            ):
                complaints.append(f"{message.location['url']}: {message.text}")

        page.on("console", note)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        try:
            yield page
        except BaseException:
            with contextlib.suppress(Exception):
                await context.close()
            raise
        kept = {"origin": self.origin, "storageTypes": "local_storage"}  # such as a language
        await (await context.new_cdp_session(page)).send("Storage.clearDataForOrigin", kept)
        await page.close()
        await context.clear_cookies()
        await context.clear_permissions()
        self._idle[script].append(context)
        assert not complaints, complaints

    async def _context(self, *, script: bool) -> BrowserContext:
        """One that somebody has used before and left no trace in, or else a new one, which takes a
        second."""
        if self._idle[script]:
            return self._idle[script].pop()
        context = await self.browser.new_context(
            base_url=f"{self.dashboard}/", java_script_enabled=script
        )
        context.set_default_timeout(PATIENCE_MILLISECONDS)
        return context


async def htmx_there(page: Page) -> None:
    """Waits for what a page fetches once it has been painted."""
    await page.evaluate(HTMX_THERE)


async def faults(page: Page, *parts: str, rules: Sequence[str] = ()) -> list[str]:
    """What axe-core finds wrong with a page, or with these parts of a long one, by all rules or by
    these."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE)
    context = {"include": [[part] for part in parts or ["html"]]}
    return list(await page.evaluate(FAULTS, [context, list(rules) or None]))


async def overflow(page: Page) -> int:
    """By how many pixels a page is wider than the window."""
    return int(
        await page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
    )


async def cut_off(page: Page) -> list[str]:
    """What is cut off or sticks out at every width; the window is left as on a
    phone. Nothing is painted meanwhile, which takes longer than to lay it out."""
    found: list[str] = []
    await page.evaluate("document.documentElement.style.visibility = 'hidden'")
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 900})
        found += [f"at {width} px, {fault}" for fault in await page.evaluate(CUT_OFF)]
    await page.evaluate("document.documentElement.style.visibility = ''")
    return found
