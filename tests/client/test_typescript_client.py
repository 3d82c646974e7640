"""The client for TypeScript: its own tests, and the package that is made of it."""

import gzip
import json
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import portico_client
from client.delivering import BODY, SECRET, signed
from client.programs import TYPESCRIPT, environment, one_worker, run, tried
from documents import Document
from oauth.authority import WEB_APP, Authority
from oauth.visiting import Browser
from operating import TIMEOUT_SECONDS
from portico.core.plans import DEFAULT_PLANS
from portico.environment import Addresses
from portico.mounts import AUTH, V1
from portico.openapi.document import DocumentPart, document
from portico.openapi.pages import with_samples

LARGEST = 17_500
"""In bytes: all of the code, compressed, without what it depends on."""
README = Document(TYPESCRIPT / "README.md", (TYPESCRIPT / "README.md").read_text("utf-8"))

pytestmark = one_worker


def test_typescript_clients_own_tests_pass(library: Path) -> None:
    tested = run(library, "node", "--test", *map(str, sorted(library.glob("test/*.test.js"))))
    assert " fail 0\n" in tested
    assert " skipped 0\n" in tested


def test_the_package_has_code_types_readme_and_licence_and_nothing_else(package: Path) -> None:
    found = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    sources = {path.relative_to(TYPESCRIPT / "src") for path in (TYPESCRIPT / "src").rglob("*.ts")}
    built = {f"dist/{path.with_suffix('.d.ts')}" for path in sources}
    modules = {path.stem for path in sources if path.parent.name != "schema"}
    built |= {f"{place}/{name}.js" for name in modules for place in ("dist", "dist/commonjs")}
    built.add("dist/commonjs/package.json")
    beside = {
        path.relative_to(TYPESCRIPT).as_posix() for path in (TYPESCRIPT / "examples").iterdir()
    }
    assert found == built | beside | {"package.json", "README.md", "LICENSE", "docs/reference.md"}
    for page in ("README.md", "docs/reference.md"):
        text = (package / page).read_text("utf-8")
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
            assert (package / page).parent.joinpath(target).is_file(), target
    described = json.loads((package / "package.json").read_text())
    entries = {described["main"], described["types"], *described["exports"]["."].values()}
    assert {entry.removeprefix("./") for entry in entries} <= found
    code = b"".join(path.read_bytes() for path in sorted((package / "dist").glob("*.js")))
    assert len(gzip.compress(code)) <= LARGEST


IMPORTED = """
import { createRequire } from "node:module";
import { PorticoError } from "@portico/client";
const required = createRequire(import.meta.url)("@portico/client");
console.log(required.PorticoError === PorticoError);
"""
REQUIRED = """
const { Client, PorticoError } = require("@portico/client");
const fetch = async () => Response.json({ data: { id: 17, name: "Ada" } });
const client = new Client({ apiKey: "an-api-key", fetch });
client.me().then(({ name }) => console.log(name, new PorticoError() instanceof Error));
"""


def test_the_package_is_imported_and_required_with_the_same_classes(package: Path) -> None:
    """By the conditions and the loader of Jest, and of Node before 20.19, too."""
    place = package.parents[2]
    assert run(place, "node", "--input-type=module", "--eval", IMPORTED) == "true\n"
    node = ("node", "--no-experimental-require-module", "--input-type=commonjs")
    assert run(place, *node, "--eval", REQUIRED) == "Ada true\n"


ITS_OWN = {
    *("Calling", "Changing", "ClientOptions", "Creating", "EventOf", "Fetch", "OAuthOptions"),
    *("GateOptions", "OnChange", "Otp", "Particulars", "Tagged", "TokenFields", "WebhookOptions"),
}
"""What Python has keywords, functions and classes of events for."""


def exported() -> set[str]:
    """What can be imported, by the text of index.ts."""
    names: set[str] = set()
    declared = r"^export (?:abstract )?(?:class|interface|type) (\w+)"
    index = (TYPESCRIPT / "src/index.ts").read_text("utf-8")
    exports = re.findall(r'^export (?:type )?([{*][^;]*?) from "(.+)";', index, re.MULTILINE)
    for listed, module in exports:
        if listed == "*":
            text = (TYPESCRIPT / "src" / module).with_suffix(".ts").read_text("utf-8")
            names |= {*re.findall(declared, text, re.MULTILINE)}
        else:
            names |= {*re.findall(r"\b(?!type )\w+", listed)}
    return names


def test_one_thing_has_one_name_in_both_clients() -> None:
    theirs = exported()
    ours = {name for name in portico_client.__all__ if not re.match("Async|Authorities", name)}
    spelled = {name.replace("verifyWebhook", "verify_webhook") for name in theirs - ITS_OWN}
    events = {name for name in ours if name.endswith("Event")} - {"Event", "UnknownEvent"}
    assert ours - spelled == events
    assert spelled <= ours
    assert theirs >= ITS_OWN


GIVEN = """
declare const callbackUrl: string;
declare const tokens: import("@portico/client").OAuthTokens;
"""
"""What some examples of the reference take for granted."""
GUARDED = """
import express from "express";
import { Gate } from "@portico/client";
const gate = new Gate("https://localhost:8443/v1", "sk_live_...", "invoices");
const app = express();
app.use(gate.express());
app.get("/", gate.express("read:invoices"), (request, response) => {
  response.json({ id: request.portico?.userId });
});
const fetch = gate.fetch("read:invoices", (_, caller) => Response.json(caller?.plan));
export default { fetch };
"""


def test_every_example_and_what_callers_write_has_the_types_of_the_client(package: Path) -> None:
    base, auth = "https://localhost:8443/v1", "https://localhost:8443/auth"
    described = document(
        DocumentPart(base, V1), DocumentPart(auth, AUTH), DEFAULT_PLANS, site_name="Portico"
    )
    shown = with_samples(described, Addresses(base, auth, ""))
    texts = {
        f"{operation['operationId']}.ts": sample["source"]
        for item in shown["paths"].values()
        for operation in item.values()
        for sample in operation["x-codeSamples"]
        if sample["lang"] == "TypeScript"
    }
    assert len(texts) > 30
    (block,) = [block.text for block in README.blocks if block.language == "js"]
    texts |= {"readme.ts": f'import {{ Client }} from "@portico/client";\n{block}'}
    texts |= {"given.d.ts": GIVEN, "guarded.ts": GUARDED}
    texts |= {path.name: path.read_text("utf-8") for path in package.glob("examples/*.js")}
    home = package.parents[2] / "written"
    home.mkdir()
    (home / "package.json").write_text('{"type": "module"}')
    shutil.copy(TYPESCRIPT / "test/consumer.ts", home)
    for name, text in texts.items():
        (home / name).write_text(text, "utf-8")
    options = ("--noEmit", "--allowJs", "--checkJs", "--skipLibCheck", "--types", "node")
    strict = ("--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess")
    modules = ("--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom")
    tsc = TYPESCRIPT / "node_modules/.bin/tsc"
    run(home, tsc, *options, *strict, *modules, "consumer.ts", *texts)


VISITED = """
import { createInterface } from "node:readline";
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const visit = async (url) => (console.log("visit", url), (await lines.next()).value);
const texts = new Map();
const kept = { getItem: (name) => texts.get(name), setItem: (name, text) => texts.set(name, text) };
const { password, clientId, token, body, headers, secret } = JSON.parse((await lines.next()).value);
"""
"""What README's lines take for granted."""


def test_readme_runs_from_top_to_bottom(package: Path, served: Authority) -> None:
    blocks = [block.text for block in README.blocks if block.language == "ts"]
    text = "\n".join(blocks).replace("https://localhost:8443", served.origin)
    home = package.parents[2]
    with served.browser() as browser:
        text = text.replace("grace@example.com", browser.person.email)
        (home / "readme.ts").write_text(VISITED + text, "utf-8")
        strip = (
            "import ts from 'typescript';"
            "import { readFileSync as read, writeFileSync as write } from 'node:fs';"
            "const options = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };"
            f"write('{home}/readme.mjs', ts.transpile(read('{home}/readme.ts', 'utf8'), options));"
        )
        run(TYPESCRIPT, "node", "--input-type=module", "--eval", strip)
        credentials = {"email": browser.person.email, "password": browser.person.password}
        with served.client() as anybody:
            token = anybody.post(f"{served.issuer}/login", json=credentials).json()["access_token"]
        now = int(datetime.now(UTC).timestamp())
        facts = {
            "password": browser.person.password,
            "clientId": served.register(WEB_APP, "--public").client_id,
            "token": token,
            "body": BODY.decode(),
            "headers": signed(at=now),
            "secret": SECRET,
        }
        said = conversed(home, served, browser, facts)
    assert "Desk lamp 19.9\n" in said
    assert "\npassword must " in said
    assert f"{browser.person.id} [ 'openid', 'read:products' ]\n" in said
    assert f"{browser.person.id} editor\n" in said
    assert "product.updated { stock_quantity: 12 }\n" in said
    assert "\n17 product.updated\n" in said


def conversed(home: Path, served: Authority, browser: Browser, facts: object) -> str:
    """What README's lines print, which have a browser visit what they ask for."""
    process = subprocess.Popen(
        ["node", home / "readme.mjs"],
        env=environment(served),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    said = ""
    with process:
        try:
            assert process.stdin
            assert process.stdout
            print(json.dumps(facts), file=process.stdin, flush=True)
            for line in process.stdout:
                said += line
                if line.startswith("visit "):
                    callback = browser.decide(line.removeprefix("visit ").strip())
                    print(callback, file=process.stdin, flush=True)
                    process.stdin.close()
            assert process.wait(TIMEOUT_SECONDS) == 0
        finally:
            process.kill()
    return said


MANAGED = """
import assert from "node:assert/strict";
import { Client, Gate, NotFound } from "@portico/client";
const { PORTICO_API_KEY: key, PORTICO_BASE_URL: base } = process.env;
const client = new Client();
const { accounts, invitations, clients, users } = client;
const { id, email } = await client.me();

const { etag, plan } = await accounts.get(id);
await accounts.update(id, { external_id: "crm-ts" }, { ifMatch: etag });
const { data: named } = await users.list({ external_id: "crm-ts" }).page(1);
assert.deepEqual(named.map((one) => one.id), [id]);
assert.equal((await accounts.update(id, { external_id: null })).external_id, null);
assert((await client.plans()).some((one) => one.name === plan));

const invited = await invitations.create({ email: "ts@example.com", role: "editor" });
const renewed = await invitations.renew(invited.id);
assert.notEqual(renewed.link, invited.link);
for await (const one of invitations.list()) assert(!("link" in one));
assert.equal((await invitations.get(invited.id)).role, "editor");
await invitations.delete(invited.id, { ifMatch: renewed.etag });

const redirect_uris = ["https://ts.example.com/callback"];
const shop = await clients.create({ name: "TS", redirect_uris });
const { client_secret } = await clients.rotateSecret(shop.client_id);
assert.notEqual(client_secret, shop.client_secret);
await clients.update(shop.client_id, { scopes: ["read:users"] }, { ifMatch: shop.etag });
assert.deepEqual((await clients.get(shop.client_id)).scopes, ["read:users"]);
assert.equal((await clients.list().page(1)).data[0].client_id, shop.client_id);
await clients.delete(shop.client_id);
await assert.rejects(clients.get(shop.client_id), NotFound);

const { data: entries } = await client.audit.list({ actor_id: id, limit: 1 }).page();
assert.equal(entries[0].user.email, email);
assert.deepEqual(await client.usage.list({ by: "hour", to: "2000-01-01T00:00:00Z" }), []);
const verified = await new Gate(base, key, "invoices").verify(key, { scope: "read:invoices" });
assert.deepEqual([verified.valid, verified.user.id], [true, id]);
"""


def test_typescript_client_manages_what_the_api_does(package: Path, served: Authority) -> None:
    program = package.parents[2] / "managed.mjs"
    program.write_text(MANAGED)
    done = tried(served, "node", program)
    assert done.returncode == 0, done.stderr
