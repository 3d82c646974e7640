"""Single-page apps on an origin of their own: that of the guide, and that of the client library."""

import re
import subprocess
from pathlib import Path

import pytest
from playwright.async_api import expect

from browser.elsewhere import Elsewhere
from browser.looking import Desk
from documents import ROOT, document

pytestmark = pytest.mark.xdist_group("browser")

GUIDE = document("docs/authentication/single-page-apps.md")

APP = """<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>Storefront</title>
<button>Sign in</button><output></output><script type="module">
%s
document.querySelector("button").onclick = () => signIn("read:products write:products");
if (location.search) {
  const { access_token, refresh_token } = await complete();
  const body = JSON.stringify({ name: "Lamp", category: "light", price: 12.5 });
  const headers = { "content-type": "application/json", "idempotency-key": crypto.randomUUID() };
  const made = await call("/products", access_token, { method: "POST", body, headers });
  const renewed = await tokens({ grant_type: "refresh_token", refresh_token });
  const listed = await call("/products?status=draft", renewed.access_token);
  const refused = await call("/users", renewed.access_token).catch((error) => error);
  document.querySelector("output").value = JSON.stringify({
    made: made.told.data.name,
    listed: listed.told.data.map((product) => product.id).includes(made.told.data.id),
    used: made.remaining - listed.remaining,
    refused: refused.code,
    address: location.href,
  });
}
</script></html>"""


async def test_an_app_on_another_origin_signs_in_and_calls(
    desk: Desk, elsewhere: Elsewhere
) -> None:
    origin = elsewhere.origin
    client = desk.installation.told(
        *("clients", "create", "--name", "Storefront", "--redirect-uri", f"{origin}/", "--public"),
        *("--scope", "read:products write:products"),
    )
    code = next(block.text for block in GUIDE.blocks if block.language == "js")
    code = code.replace("client_…", client["client_id"])
    code = code.replace("https://localhost:8443", desk.origin)
    elsewhere.page = APP % code
    editor = desk.person("editor")
    # The app asks for more than its scopes.
    async with desk.looking(expected=("status of 403",)) as page:
        await page.goto(f"{origin}/")
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_label("E-mail").fill(editor.email)
        await page.get_by_label("Password").fill(editor.password)
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("button", name="Allow").click()
        await expect(page.locator("output")).to_have_text(re.compile("made"))
        assert await page.locator("output").evaluate("output => JSON.parse(output.value)") == {
            "made": "Lamp",
            "listed": True,
            "used": 1,
            "refused": "PERMISSION_DENIED",
            "address": f"{origin}/",
        }


CLIENT = ROOT / "clients/typescript"
BUILD = ("--noCheck", "--lib", "es5", "--declaration", "false", "--outDir")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the library's `dist` is."""
    place = tmp_path_factory.mktemp("client")
    compiler = CLIENT / "node_modules/.bin/tsc"
    subprocess.run([compiler, *BUILD, place / "dist"], cwd=CLIENT, check=True)
    return place


async def test_the_client_library_runs_in_a_page_of_another_origin(
    desk: Desk, elsewhere: Elsewhere, built: Path
) -> None:
    """Its example, as it stands there."""
    elsewhere.scripts = {"client": built, "jose": CLIENT / "node_modules/jose"}
    page_url = f"{elsewhere.origin}/shop"
    client = desk.installation.told(
        *("clients", "create", "--name", "Storefront", "--redirect-uri", page_url, "--public"),
        *("--scope", "openid read:products write:products"),
    )
    example = (CLIENT / "examples/single_page_app.html").read_text("utf-8")
    example = example.replace("https://localhost:8443", desk.origin)
    elsewhere.page = example.replace("client_…", client["client_id"])
    editor = desk.person("editor")
    async with desk.looking(expected=("status of 403",)) as page:
        await page.goto(page_url)
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_label("E-mail").fill(editor.email)
        await page.get_by_label("Password").fill(editor.password)
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("button", name="Allow").click()
        await expect(page.get_by_role("status")).to_have_text(re.compile("PERMISSION_DENIED"))
        assert "Lamp: 12.5 USD" in await page.get_by_role("listitem").all_inner_texts()
        assert page.url == page_url
