"""Single-page apps on an origin of their own: that of the guide, that of the client library, and
one with oidc-client-ts.
"""

import json
import re
import subprocess
from pathlib import Path

import pytest
from playwright.async_api import expect

from browser.elsewhere import Elsewhere, serving_elsewhere
from browser.looking import Desk
from documents import ROOT, document
from node_packages import node_packages

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
            "used": 2,  # the list, and before it the code at /token
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


OIDC_APP = """<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>Shop</title>
<output></output><script src="/oidc/oidc-client-ts.min.js"></script><script>
const app = new oidc.UserManager({
  authority: "%s",
  client_id: "%s",
  redirect_uri: `${location.origin}/`,
  post_logout_redirect_uri: `${location.origin}/goodbye`,
  scope: "openid email read:products",
  loadUserInfo: true,
});
const output = document.querySelector("output");
const show = ({ access_token, profile: { sub, sid, email } }) =>
  ({ access_token, sub, sid, email });
if (location.search) {
  const back = location.pathname === "/" ? app.signinCallback() : app.signoutCallback();
  back.then((told) => told && (told.userState ?? JSON.stringify(show(told))), ({ error }) => error)
    .then((told) => { output.value = told; }); // in a frame nothing is told
}
</script></html>"""
RENEWED = "app.signinSilent().then(show)"
IN_A_FRAME = "app.removeUser().then(() => app.signinSilent()).catch(({ error }) => error)"


async def test_oidc_client_ts_signs_in_silently_until_it_has_signed_out(desk: Desk) -> None:
    tls = desk.installation.data / "tls"
    editor = desk.person("editor")
    with serving_elsewhere(tls) as shop:
        client = desk.installation.told(
            *("clients", "create", "--name", "Shop", "--redirect-uri", f"{shop.origin}/"),
            *("--post-logout-redirect-uri", f"{shop.origin}/goodbye", "--public"),
            *("--scope", "read:products"),
        )
        packages = node_packages(ROOT / "tests/oauth/node")
        shop.scripts = {"oidc": packages / "oidc-client-ts/dist/browser"}
        shop.page = OIDC_APP % (f"{desk.origin}/auth", client["client_id"])
        async with desk.looking() as page:
            output = page.locator("output")

            async def leave(call: str) -> None:
                await page.evaluate(f"output.value = ''; void app.{call}")

            async def arrived() -> str:
                """What the app shows once the browser has come back to it."""
                await expect(output).not_to_be_empty()
                return await output.inner_text()

            await page.goto(f"{shop.origin}/")
            await leave("signinRedirect()")
            await page.get_by_label("E-mail").fill(editor.email)
            await page.get_by_label("Password").fill(editor.password)
            await page.get_by_role("button", name="Sign in").click()
            await page.get_by_role("button", name="Allow").click()
            first = json.loads(await arrived())
            assert (first["sub"], first["email"]) == (str(editor.id), editor.email)
            renewed = await page.evaluate(RENEWED)
            assert await page.evaluate(IN_A_FRAME) == "login_required"
            await leave("signinRedirect({ prompt: 'none' })")
            again = json.loads(await arrived())
            assert len({told.pop("access_token") for told in (first, renewed, again)}) == 3
            assert first == renewed == again
            await leave("signoutRedirect({ state: 'signed out' })")
            assert await arrived() == "signed out"
            await leave("signinRedirect({ prompt: 'none' })")
            assert await arrived() == "login_required"
