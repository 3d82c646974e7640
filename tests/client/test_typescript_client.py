"""The client for TypeScript: its own tests, and the package that is made of it, built once."""

import gzip
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

import portico_client
from client.delivering import BODY, SECRET, left_unfinished, signed
from client.gates import PAST_PORTICO, assert_answered_alike, key_of, sent, verifying_key
from documents import ROOT, Document
from node_packages import node_packages
from oauth.authority import WEB_APP, Authority
from oauth.visiting import Browser
from operating import TIMEOUT_SECONDS, free_port, until
from portico.core.plans import DEFAULT_PLANS
from portico.environment import Addresses
from portico.mounts import AUTH, V1
from portico.openapi.document import DocumentPart, document
from portico.openapi.pages import with_samples

HOME = ROOT / "clients/typescript"
BUILT = ("node_modules", "dist", "*.tgz")
LARGEST = 17_500
"""In bytes: all of the code, compressed, without what it depends on."""
README = Document(HOME / "README.md", (HOME / "README.md").read_text("utf-8"))
TSC = (HOME / "node_modules/.bin/tsc", "--strict", "--skipLibCheck", "--target", "es2022")

pytestmark = pytest.mark.xdist_group("typescript")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library's directory, built and tested, and beside it the cases."""
    clients = tmp_path_factory.mktemp("clients")
    shutil.copytree(ROOT / "clients/cases", clients / "cases")
    shutil.copytree(HOME, clients / "typescript", ignore=shutil.ignore_patterns(*BUILT))
    (clients / "typescript/node_modules").symlink_to(node_packages(HOME))
    return clients / "typescript"


def run(place: Path, *argv: str | Path) -> str:
    """What a program prints."""
    done = subprocess.run(argv, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-10_000:]
    return done.stdout


@pytest.fixture(scope="module")
def tested(place: Path) -> str:
    """What the library's own tests say, which build it first."""
    return run(place, "npm", "test")


@pytest.fixture(scope="module")
def package(place: Path, tested: str) -> Path:
    """The package as others install it, with what it depends on beside it."""
    assert tested
    told = json.loads(run(place, "npm", "pack", "--ignore-scripts", "--json"))
    (made,) = told.values() if isinstance(told, dict) else told  # by name, from npm 12 on
    modules = place.parent / "installed/node_modules"
    (modules / "@portico").mkdir(parents=True)
    run(place, "tar", "-xzf", made["filename"], "-C", str(modules / "@portico"))
    (modules / "@portico/package").rename(modules / "@portico/client")
    for name in ("jose", "@types", "express"):
        (modules / name).symlink_to(HOME / "node_modules" / name)
    (modules / "undici").symlink_to(HOME / "node_modules/undici-types")
    return modules / "@portico/client"


def test_its_own_tests_pass(tested: str) -> None:
    assert " fail 0\n" in tested
    assert " skipped 0\n" in tested


def test_the_package_has_code_types_readme_and_licence_and_nothing_else(package: Path) -> None:
    found = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    sources = {path.relative_to(HOME / "src") for path in (HOME / "src").rglob("*.ts")}
    built = {f"dist/{path.with_suffix(end)}" for path in sources for end in (".js", ".d.ts")}
    built |= {f"dist/commonjs/{path.stem}.js" for path in sources if path.parent.name != "schema"}
    built.add("dist/commonjs/package.json")
    beside = {path.relative_to(HOME).as_posix() for path in (HOME / "examples").iterdir()}
    assert found == built | beside | {"package.json", "README.md", "LICENSE", "docs/reference.md"}
    for page in ("README.md", "docs/reference.md"):
        text = (package / page).read_text("utf-8")
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
            assert (package / page).parent.joinpath(target).is_file(), target
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


EXPORTS = """
import ts from "typescript";
const options = { module: ts.ModuleKind.NodeNext, target: ts.ScriptTarget.ES2022 };
const program = ts.createProgram(["src/index.ts"], options);
const checker = program.getTypeChecker();
const index = checker.getSymbolAtLocation(program.getSourceFile("src/index.ts"));
console.log(checker.getExportsOfModule(index).map(({ name }) => name).join());
"""
ITS_OWN = {
    *("Calling", "Changing", "ClientOptions", "Creating", "EventOf", "Fetch", "OAuthOptions"),
    *("GateOptions", "OnChange", "Otp", "Particulars", "Tagged", "TokenFields", "WebhookOptions"),
}
"""What Python has keywords, functions and classes of events for."""


def test_one_thing_has_one_name_in_both_clients(place: Path) -> None:
    exported = {*run(place, "node", "--input-type=module", "--eval", EXPORTS).strip().split(",")}
    ours = {name for name in portico_client.__all__ if not re.match("Async|Authorities", name)}
    spelled = {name.replace("verifyWebhook", "verify_webhook") for name in exported - ITS_OWN}
    events = {name for name in ours if name.endswith("Event")} - {"Event", "UnknownEvent"}
    assert ours - spelled == events
    assert spelled <= ours
    assert exported >= ITS_OWN


GIVEN = """
declare const callbackUrl: string;
declare const tokens: import("@portico/client").OAuthTokens;
"""
"""What some examples of the reference take for granted."""


def test_every_example_has_the_types_of_the_client(package: Path) -> None:
    home = package.parents[2] / "examples"
    home.mkdir()
    (home / "package.json").write_text('{"type": "module"}')
    (home / "given.d.ts").write_text(GIVEN)
    base, auth = "https://localhost:8443/v1", "https://localhost:8443/auth"
    described = document(
        DocumentPart(base, V1), DocumentPart(auth, AUTH), DEFAULT_PLANS, site_name="Portico"
    )
    shown = with_samples(described, Addresses(base, auth, ""))
    for operation in (one for item in shown["paths"].values() for one in item.values()):
        for sample in operation["x-codeSamples"]:
            if sample["lang"] == "TypeScript":
                (home / f"{operation['operationId']}.ts").write_text(sample["source"], "utf-8")
    files = [path.name for path in home.glob("*.ts")]
    assert len(files) > 30
    run(home, *TSC, "--noEmit", "--module", "nodenext", *files)
    own = Path(__file__).read_text("utf-8")
    examples = sorted((package / "examples").glob("*.js"))
    assert [path.name for path in examples if f'"{path.name}"' not in own] == []
    options = ("--noEmit", "--allowJs", "--checkJs", "--module", "nodenext", "--types", "node")
    run(package.parents[2], *TSC, *options, *examples)


@pytest.mark.parametrize(
    ("module", "resolution"),
    [("nodenext", "nodenext"), ("commonjs", "node10"), ("esnext", "bundler")],
)
def test_what_callers_write_compiles_and_runs_however_modules_are_resolved(
    package: Path, module: str, resolution: str
) -> None:
    home = package.parents[2] / module
    home.mkdir()
    kind = "commonjs" if module == "commonjs" else "module"
    (home / "package.json").write_text(json.dumps({"type": kind}))
    shutil.copy(HOME / "test/consumer.ts", home)
    (block,) = [block.text for block in README.blocks if block.language == "js"]
    (home / "readme.ts").write_text('import { Client } from "@portico/client";\n' + block, "utf-8")
    text = 'import { Client } from "@portico/client"; console.log(typeof Client);'
    (home / "program.ts").write_text(text)
    options = ("--module", module, "--moduleResolution", resolution, "--types", "node")
    strict = ("--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess")
    files = ("consumer.ts", "readme.ts")
    run(home, *TSC, "--noEmit", "--lib", "es2022,dom", *options, *strict, *files)
    run(home, *TSC, *options, "program.ts")
    assert run(home, "node", "program.js") == "function\n"


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
        run(HOME, "node", "--input-type=module", "--eval", strip)
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
        env=variables(served),
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


# Examples, as they stand in the package


def variables(served: Authority) -> dict[str, str]:
    """What the examples find in their environment."""
    kept = {name: value for name, value in os.environ.items() if "PORTICO" not in name}
    own = {
        "PORTICO_API_KEY": served.installation.key,
        "PORTICO_BASE_URL": served.api,
        "PORTICO_AUTH_URL": served.issuer,
        "NODE_EXTRA_CA_CERTS": str(served.certificate),
        "WEBHOOK_SECRET": SECRET,
    }
    return {**kept, **own}


def tried(
    package: Path, served: Authority, example: str, *arguments: str
) -> "subprocess.CompletedProcess[str]":
    """An example, to its end."""
    argv, own = ["node", str(package / "examples" / example), *arguments], variables(served)
    return subprocess.run(
        argv, env=own, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS * 3
    )


@contextmanager
def trying(
    package: Path, served: Authority, said: Path, example: str, *arguments: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """An example that goes on, and writes what it prints into a file."""
    argv = ["node", str(package / "examples" / example), *arguments]
    with said.open("wb") as output:
        process = subprocess.Popen(
            argv, env=variables(served), stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def listening(package: Path, served: Authority, said: Path, example: str) -> Iterator[str]:
    """The address of an example that serves."""
    with trying(package, served, said, example, str(free_port())) as process:
        until(lambda: said.read_text() or process.poll() is not None, "the start")
        assert process.poll() is None, said.read_text()
        yield said.read_text().strip()


def test_products_are_made_once_and_listed_by_filters(
    package: Path, served: Authority, tmp_path: Path
) -> None:
    category, file = secrets.token_hex(6), tmp_path / "products.ndjson"
    made = [
        {"name": f"Lamp {price}", "category": category, "price": price, "status": "active"}
        | {"stock_quantity": stock}
        for price, stock in ((10, 1), (20, 0), (30, 2), (40, 3))
    ]
    lines = [*map(json.dumps, made), json.dumps({**made[0], "price": -1}), "no JSON"]
    file.write_text("\n".join(lines))
    for _ in range(2):
        done = tried(package, served, "bulk_create.js", str(file))
        assert done.returncode == 1, done.stderr
        *faults, told = done.stdout.splitlines()
        assert sorted(faults) == ["line 5: price must not be negative", "line 6: it is not JSON"]
        assert told == "4 created, 2 wrong"
    asked = ("--category", category, "--max-price", "30.5", "lamp")
    done = tried(package, served, "list_products.js", *asked)
    assert done.returncode == 0, done.stderr
    *found, total = done.stdout.splitlines()
    assert sorted(line.split("  ", 1)[1] for line in found) == [
        "10.00 USD  Lamp 10",
        "30.00 USD  Lamp 30",
    ]
    assert total == "2 products"


def test_events_are_printed_once_however_often_one_starts(
    package: Path, served: Authority, tmp_path: Path
) -> None:
    place, said = tmp_path / "last-event", tmp_path / "said"
    with served.client(served.installation.key) as admin:
        after, told = 0, []
        while page := admin.get(f"{served.api}/events?limit=100&after={after}").json()["data"]:
            after = page[-1]["id"]
        place.write_text(str(after))
        for name in ("Lamp 1", "Lamp 2"):
            product = {"name": name, "category": "followed", "price": 1}
            assert admin.post(f"{served.api}/products", json=product).status_code == 201
            with trying(package, served, said, "follow_events.js", str(place)) as process:
                until(lambda: "product.created" in said.read_text(), "the event")
                process.send_signal(signal.SIGINT)
                assert process.wait(TIMEOUT_SECONDS) == 0
            told += said.read_text().splitlines()
    assert [line.partition(" ")[2] for line in told] == ["product.created", "product.created"]


def test_a_receiver_prints_each_delivery_once(
    package: Path, served: Authority, tmp_path: Path
) -> None:
    headers, said = signed(at=int(datetime.now(UTC).timestamp())), tmp_path / "said"
    with (
        listening(package, served, said, "receive_webhooks.js") as address,
        httpx.Client(base_url=address, timeout=TIMEOUT_SECONDS) as sender,
    ):
        refused = sender.post("/", content=BODY + b" ", headers=headers)
        assert (refused.status_code, "signature" in refused.text) == (400, True)
        left_unfinished(int(address.rstrip("/").rpartition(":")[2]))
        for _ in range(2):
            assert sender.post("/", content=BODY, headers=headers).status_code == 204
    assert said.read_text().count("product.updated") == 1


def test_a_service_lets_in_who_brings_a_token(
    package: Path, served: Authority, tmp_path: Path
) -> None:
    person = served.person("viewer")
    body = {"email": person.email, "password": person.password}
    with served.client() as anybody:
        token = anybody.post(f"{served.issuer}/login", json=body).json()["access_token"]
    with (
        listening(package, served, tmp_path / "said", "verify_token.js") as address,
        httpx.Client(timeout=TIMEOUT_SECONDS) as caller,
    ):
        known = caller.get(address, headers={"authorization": f"Bearer {token}"})
        assert (known.status_code, known.json()["user"]) == (200, person.id)
        unknown = caller.get(address, headers={"authorization": f"Bearer {token[:-4]}AAAA"})
        assert (unknown.status_code, unknown.json()) == (
            401,
            {"error": "signature verification failed"},
        )
        assert caller.get(address).status_code == 401


# The gate, in front of Express and of a fetch handler

GUARDED = """
import { createServer } from "node:http";
import express from "express";
import { Gate } from "@portico/client";

const [base, key, port] = process.argv.slice(2);
const gate = new Gate(base, key, "invoices", { path: "/invoices" });
const told = (caller) => ({ user: caller?.userId, plan: caller?.plan, held: caller?.credential });

const app = express();
const alone = gate.express("write:invoices");
app.post("/alone/:id", alone, ({ portico }, answer) => answer.json(told(portico)));
app.use(gate.express());
app.get("/status", (_request, answer) => answer.json({ status: "fine" }));
app.use(gate.express("read:invoices"), ({ portico }, answer) => answer.json(told(portico)));

const answer = (_request, caller) => Response.json(told(caller));
const written = gate.fetch("write:invoices", answer);
const ruled = gate.fetch(undefined, answer);
const serve = async (incoming, outgoing) => {
  const { url, method, headers } = incoming;
  if (!url.startsWith("/fetch/")) return app(incoming, outgoing);
  const request = new Request(`http://service${url.slice(6)}`, { method, headers });
  const found = await (url.startsWith("/fetch/alone/") ? written : ruled)(request);
  outgoing.writeHead(found.status, Object.fromEntries(found.headers)).end(await found.text());
};
createServer(serve).listen(Number(port), "127.0.0.1", () => console.log("listening"));
"""
GUARDED_TYPES = """
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


def test_express_takes_the_gate_by_its_types(package: Path) -> None:
    home = package.parents[2] / "guarded"
    home.mkdir()
    (home / "package.json").write_text('{"type": "module"}')
    (home / "app.ts").write_text(GUARDED_TYPES)
    run(home, *TSC, "--noEmit", "--module", "nodenext", "--types", "node", "app.ts")


@pytest.fixture(scope="module")
def guarded(package: Path, served: Authority, service_port: int) -> Iterator[str]:
    """The address of a service in Express."""
    program, said = package.parents[2] / "guarded.mjs", package.parents[2] / "said"
    program.write_text(GUARDED)
    own = variables(served)
    del own["PORTICO_API_KEY"], own["PORTICO_AUTH_URL"], own["PORTICO_BASE_URL"]
    argv = ["node", str(program), served.api, verifying_key(served), str(service_port)]
    with said.open("wb") as output:
        process = subprocess.Popen(argv, env=own, stdout=output, stderr=subprocess.STDOUT)
    try:
        until(lambda: said.read_text() or process.poll() is not None, "the start")
        assert said.read_text() == "listening\n"
        yield f"http://127.0.0.1:{service_port}"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("below", ["", "/fetch"])
@pytest.mark.parametrize(("sender", "method", "path", "status"), PAST_PORTICO)
def test_past_portico_the_gate_answers_as_portico_does(
    served: Authority, guarded: str, below: str, sender: str, method: str, path: str, status: int
) -> None:
    assert_answered_alike(served, f"{guarded}{below}", sender, method, path, status)


@pytest.mark.parametrize("below", ["", "/fetch"])
def test_a_scope_alone_is_asked_for_and_its_lack_named(
    served: Authority, guarded: str, below: str
) -> None:
    address = f"{guarded}{below}/alone/7"
    editor, viewer, reader = (
        {"authorization": f"Bearer {key_of(served, role, type=kind)}"}
        for role, kind in (("editor", "live"), ("viewer", "live"), ("editor", "read"))
    )
    assert sent(served, address, "POST", editor).json()["plan"] == "free"
    refused = sent(served, address, "POST", viewer)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "PERMISSION_DENIED")
    theirs = sent(served, f"{served.api}/invoices/alone/7", "POST", viewer)
    assert refused.headers["www-authenticate"] == theirs.headers["www-authenticate"]
    assert "read-only" in sent(served, address, "POST", reader).text
    assert sent(served, address, "POST").status_code == 401
    forged = sent(served, address, "POST", {"x-portico-identity": "a.b.c"})
    assert (forged.status_code, "not trusted" in forged.text) == (401, True)


def test_what_portico_forwards_is_trusted_and_counted_once_in_express(
    served: Authority, guarded: str
) -> None:
    bearer = {"authorization": f"Bearer {key_of(served, 'viewer', 'tiny')}"}
    forwarded = [sent(served, f"{served.api}/invoices/7", headers=bearer) for _ in range(2)]
    past = [sent(served, f"{guarded}/7", headers=bearer) for _ in range(2)]
    left = [one.headers.get_list("x-ratelimit-remaining") for one in (*forwarded, *past)]
    assert left == [["2"], ["1"], ["0"], ["0"]]
    assert forwarded[0].json() == past[0].json()
    assert (past[1].status_code, past[1].json()["error"]["code"]) == (429, "RATE_LIMITED")
    assert int(past[1].headers["retry-after"]) > 0
