"""The app of the guide to single-page apps, on an origin of its own."""

import re

import pytest
from playwright.async_api import expect

from browser.elsewhere import Elsewhere
from browser.looking import Desk
from documents import document

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
