"""Rows of what a second or a core's time yields: GET one, the list, durable writes, catalogues of
each size, connections, cached lists, and own kinds, services and tools beside products."""

import json
import re
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from bench import catalog, pocketbase, portico
from bench.load import Request, wrk
from bench.servers import BenchError, Running
from bench.workshop import LARGE, MIDDLE, SMALL, Job, Workshop, check_answer, check_tls_1_3

GET = Request(portico.PRODUCT, high=MIDDLE)
LIST = Request(portico.FIRST_PAGE)
POCKETBASE_GET = Request(f"{pocketbase.RECORDS}/{{N}}", high=MIDDLE, digits=pocketbase.ID_DIGITS)
POCKETBASE_LIST = Request(pocketbase.FIRST_PAGE)
BODY_SAMPLE = 50


def mean_body(server: Running) -> int:
    """The mean size of a product's response body, in bytes."""
    sizes = [len(server.address.get(f"/v1/products/{id_}")[1]) for id_ in range(1, BODY_SAMPLE + 1)]
    return sum(sizes) // BODY_SAMPLE


def get(shop: Workshop) -> None:
    """GET of a random product, compared with all other servers."""
    with ExitStack() as stack:
        ours = [stack.enter_context(shop.portico(MIDDLE, tls_on=on)) for on in (True, False)]
        size = mean_body(ours[0])
        hello = [stack.enter_context(shop.hello(size, tls_on=on)) for on in (True, False)]
        fastify = [stack.enter_context(shop.fastify(MIDDLE, tls_on=on)) for on in (True, False)]
        for server in (hello[0], ours[0], fastify[0]):
            check_tls_1_3(server)
        base = stack.enter_context(shop.pocketbase(MIDDLE))
        silent = stack.enter_context(shop.portico(MIDDLE, tls_on=True, request_log=False))
        base_silent = stack.enter_context(shop.pocketbase(MIDDLE, request_log=False))
        jobs = [Job(server.name, server, GET) for server in (*hello, *ours, *fastify)]
        jobs.append(Job(base.name, base, POCKETBASE_GET))
        jobs.append(Job(f"{silent.name}, no request log", silent, GET))
        jobs.append(Job(f"{base_silent.name}, no request log", base_silent, POCKETBASE_GET))
        series = shop.interleave("get", jobs)
    hello_tls, hello_plain, tls, plain, fastify_tls, fastify_plain, of_base, *silents = series
    shop.ratio("get", "Portico ÷ hello, both over TLS 1.3", tls, hello_tls, 0.55)
    shop.ratio("get", "Portico ÷ hello, both plain", plain, hello_plain, 0.55)
    shop.ratio("get", "Portico ÷ Fastify, both over TLS 1.3", tls, fastify_tls, 1.25)
    shop.ratio("get", "Portico ÷ Fastify, both plain", plain, fastify_plain)
    shop.ratio("get", "Portico ÷ PocketBase, both plain", plain, of_base, 6)
    shop.ratio("get", "Portico ÷ Fastify over TLS, no request logs", silents[0], fastify_tls)
    shop.ratio("get", "Portico (TLS) ÷ PocketBase (plain), no request logs", silents[0], silents[1])
    shop.ratio("get", "Portico, TLS 1.3 ÷ plain behind a trusted proxy", tls, plain, 0.9)


def list_(shop: Workshop) -> None:
    """The first page of 25 products with the exact total, newest first."""
    with ExitStack() as stack:
        tls = stack.enter_context(shop.portico(MIDDLE, tls_on=True))
        plain = stack.enter_context(shop.portico(MIDDLE, tls_on=False))
        fastify = stack.enter_context(shop.fastify(MIDDLE, tls_on=True))
        base = stack.enter_context(shop.pocketbase(MIDDLE))
        for server in (tls, plain, fastify):
            check_answer(server, LIST.path, b'"total_items":%d' % MIDDLE)
        check_answer(base, POCKETBASE_LIST.path, b'"totalItems":%d' % MIDDLE)
        jobs = [Job(server.name, server, LIST) for server in (tls, plain, fastify)]
        jobs.append(Job(base.name, base, POCKETBASE_LIST))
        of_tls, of_plain, of_fastify, of_base = shop.interleave("list", jobs)
    shop.ratio("list", "Portico ÷ Fastify, both over TLS 1.3", of_tls, of_fastify, 3)
    shop.ratio("list", "Portico ÷ PocketBase, both plain", of_plain, of_base, 50)
    shop.ratio("list", "Portico, TLS 1.3 ÷ plain behind a trusted proxy", of_tls, of_plain, 0.9)


def write(shop: Workshop) -> None:
    """POST of a product over 32 connections. Portico and Fastify respond after it is on disk.

    PocketBase commits with `synchronous=NORMAL`: its response does not wait for the disk.
    """
    body = catalog.new_product()
    post = Request(portico.PRODUCTS, "POST", body, high=10**8, digits=9)
    base_post = Request(pocketbase.RECORDS, "POST", body, high=10**8, digits=9)
    with ExitStack() as stack:
        ours = stack.enter_context(shop.portico(MIDDLE, tls_on=False))
        fastify = stack.enter_context(shop.fastify(MIDDLE, tls_on=False))
        base = stack.enter_context(shop.pocketbase(MIDDLE))
        jobs = [Job(server.name, server, post) for server in (ours, fastify)]
        jobs.append(Job(base.name, base, base_post))
        of_ours, of_fastify, of_base = shop.interleave("write", jobs)
    shop.ratio("write", "Portico, durable ÷ PocketBase, both plain", of_ours, of_base, 1)
    shop.ratio("write", "Portico ÷ Fastify, both durable, both plain", of_ours, of_fastify)


def scale(shop: Workshop) -> None:
    """GET and list with a million products, compared with a thousand."""
    with ExitStack() as stack:
        small = stack.enter_context(shop.portico(SMALL, tls_on=True))
        large = stack.enter_context(shop.portico(LARGE, tls_on=True))
        check_answer(large, LIST.path, b'"total_items":%d' % LARGE)
        jobs = [
            Job("GET at 1,000", small, Request(portico.PRODUCT, high=SMALL)),
            Job("GET at 1,000,000", large, Request(portico.PRODUCT, high=LARGE)),
            Job("list at 1,000", small, LIST),
            Job("list at 1,000,000", large, LIST),
        ]
        get_small, get_large, list_small, list_large = shop.interleave("scale", jobs)
    shop.ratio("scale", "GET at 1,000,000 ÷ at 1,000", get_large, get_small, 0.8)
    shop.ratio("scale", "list at 1,000,000 ÷ at 1,000", list_large, list_small, 0.8)


MANY = 1_000


def connections(shop: Workshop) -> None:
    """GET one product over 1,000 persistent connections, and over a new connection for each
    request. The former is compared with a bare server and Fastify."""
    with ExitStack() as stack:
        ours = stack.enter_context(shop.portico(MIDDLE, tls_on=True))
        hello = stack.enter_context(shop.hello(mean_body(ours), tls_on=True))
        fastify = stack.enter_context(shop.fastify(MIDDLE, tls_on=True))
        many, new = replace(GET, connections=MANY), replace(GET, keep_alive=False)
        jobs = []
        for server in (ours, hello, fastify):
            name = server.name
            jobs.append(Job(f"GET over {GET.connections} connections, {name}", server, GET))
            jobs.append(Job(f"GET over {MANY:,} connections, {name}", server, many))
        jobs += [
            Job("GET over a new connection each", ours, new),
            Job("GET over a new one each, Fastify", fastify, new),
        ]
        *kept, over_new, fastify_new = shop.interleave("connections", jobs)
    what = f"{MANY:,} connections that stay ÷ {GET.connections}, TLS"
    for server, few, over_many in zip((ours, hello, fastify), kept[::2], kept[1::2], strict=True):
        floor = 0.9 if server is ours else None
        shop.ratio("connections", f"{what}, {server.name}", over_many, few, floor)
    what = "new connections, Portico ÷ Fastify, both over TLS"
    shop.ratio("connections", what, over_new, fastify_new, 1.5)


CHANGED = 5
"""How many of a hundred requests change the price of a random product."""

_MIXED = """
wrk.headers["Content-Type"] = "application/json"
math.randomseed(os.time())

function request()
  if math.random(100) <= {changed} then
    local path = "{product}" .. math.random({high})
    return wrk.format("PATCH", path, nil, '{{"price": ' .. math.random(99999) / 100 .. '}}')
  end
  return wrk.format("GET", {path})
end
"""


def _mixed(path: str) -> Request:
    """Reads of a path, a Lua expression, mixed with changes."""
    product = portico.PRODUCT.removesuffix("{N}")
    script = _MIXED.format(changed=CHANGED, product=product, high=MIDDLE, path=path)
    return Request("", script=script)


REQUESTS = {"list": LIST, "list, 5 % changes": _mixed(f'"{LIST.path}"')}


def kept(shop: Workshop) -> None:
    """The list with and without the cache."""
    with ExitStack() as stack:
        ours = stack.enter_context(shop.portico(MIDDLE, tls_on=True))
        made = stack.enter_context(shop.portico(MIDDLE, tls_on=True, kept=False))
        jobs = [
            Job(f"{name}, {how}", server, request)
            for name, request in REQUESTS.items()
            for how, server in (("kept", ours), ("made", made))
        ]
        series = shop.interleave("kept", jobs)
        rates = {name: _hit_rate(shop, ours, request) for name, request in REQUESTS.items()}
    for name, over, under in zip(REQUESTS, series[::2], series[1::2], strict=True):
        floor = 1.0 if "changes" in name else None
        shop.ratio("kept", f"{name}: kept ÷ made, both over TLS", over, under, floor)
        shop.note("kept", f"{name}: reads that were kept", rates[name], "of 1")


def _hit_rate(shop: Workshop, server: Running, request: Request) -> float:
    """The part of the reads that was answered from the cache."""
    hits, misses = _counts(server)
    wrk(server.address, request, shop.report.seconds, seed=1)
    hits_after, misses_after = _counts(server)
    hits, misses = hits_after - hits, misses_after - misses
    return hits / max(1, hits + misses)


def _counts(server: Running) -> tuple[float, float]:
    _, body = server.address.get("/metrics")
    told = dict(
        re.findall(r"^portico_kept_representations_(\w+)_total (\S+)$", body.decode(), re.MULTILINE)
    )
    return float(told["hits"]), float(told["misses"])


def _compare(
    shop: Workshop, row: str, what: str, ours: Job, theirs: Job, bound: float | None
) -> None:
    """Interleaves two jobs and compares the processor time of their requests."""
    own, other = (series.cpu_us or 0.0 for series in shop.interleave(row, [ours, theirs]))
    if bound is None:
        shop.note(row, what, own / other, "x")
    else:
        shop.at_most(row, what, own / other, "x", bound, void=not other)


KINDS = Path(__file__).parent / "twin"
"""Declares `items`, with the fields of products."""
KIND_BOUND = 1.05
"""An own kind's processor time ÷ that of products, at most."""


def declared(shop: Workshop) -> None:
    """GET, list, search and POST of a declared kind and of products, in one server."""
    data = shop.portico_data(MIDDLE).copied(shop.fresh("portico-declared"))
    data = replace(data, environment={**data.environment, "PORTICO_KINDS": str(KINDS)})
    shop.say(f"portico records items import, {MIDDLE:,} records")
    portico.import_records(data, "items", shop.catalogue(MIDDLE))
    with portico.serving(data, shop.log) as server:
        check_answer(server, "/v1/items?page=1&limit=25", b'"total_items":%d' % MIDDLE)
        for name, path in {
            "GET": "/{N}",
            "list": "?page={N}&limit=25",
            "search": f"?search={catalog.RARE_WORD}&page={{N}}",
        }.items():
            high = MIDDLE if name == "GET" else MIDDLE // 25 if name == "list" else 20
            _beside_products(shop, server, name, Request(path, high=high))
        post = Request("", "POST", catalog.new_product(), high=10**8, digits=9)
        _beside_products(shop, server, "POST", post)


def _beside_products(shop: Workshop, server: Running, name: str, request: Request) -> None:
    """Sends the same request to both lists."""
    items, products = (
        Job(f"{name} of {many}", server, replace(request, path=f"/v1/{many}{request.path}"))
        for many in ("items", "products")
    )
    what = f"{name}: processor time of items ÷ of products"
    _compare(shop, "declared", what, items, products, KIND_BOUND)


DECLARED = """
[services.invoices]
path = "/invoices"
upstream = "http://127.0.0.1:{port}"

[services.invoices.scopes]
"read:invoices" = {{ about = "See invoices", roles = ["viewer"] }}

[[services.invoices.rules]]
path = "/**"
scope = "read:invoices"
"""
ASKED = {"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/7"}
SIZE = 350
"""About as many bytes as a product has."""


def services(shop: Workshop) -> None:
    """POST /verify, GET /check and a forwarded GET, beside GET of one product, in one server."""
    data = shop.portico_data(MIDDLE).copied(shop.fresh("portico-services"))
    with shop.hello(SIZE, tls_on=False) as upstream:
        config = data.directory.with_suffix(".toml")
        declared = DECLARED.format(port=upstream.address.port)
        config.write_text(portico.LIMITS + declared)
        data = replace(data, environment={**data.environment, "PORTICO_CONFIG": str(config)})
        with portico.serving(data, shop.log) as server:
            address = server.address
            server = replace(server, address=replace(address, headers={**address.headers, **ASKED}))
            check = {"credential": data.key, "scope": "read:invoices", "address": "192.0.2.{N}"}
            requests = {
                "GET of one product": GET,
                "POST /verify": Request("/v1/verify", "POST", json.dumps(check), 9, 1),
                "GET /check": Request("/auth/check/invoices"),
                "forwarded GET": Request("/v1/invoices/7"),
            }
            for path in ("/auth/check/invoices", "/v1/invoices/7"):
                if (status := server.address.get(path)[0]) != 200:
                    raise BenchError(f"{path} answers {status}")
            jobs = [Job(name, server, request) for name, request in requests.items()]
            read, verified, checked, forwarded = shop.interleave("services", jobs)
    shop.ratio("services", "POST /verify ÷ GET of one product", verified, read, 0.8)
    shop.ratio("services", "GET /check ÷ GET of one product", checked, read, 0.9)
    what = "forwarded GET: processor time ÷ of GET of one product"
    used = (forwarded.cpu_us or 0.0) / (read.cpu_us or 1.0)
    shop.at_most("services", what, used, "x", 2.5, void=not read.cpu_us or not forwarded.cpu_us)


CALL_BOUND = 1.3
"""A tool call's processor time ÷ that of the plain request, at most."""

_CALL = """
wrk.headers["Content-Type"] = "application/json"
wrk.headers["MCP-Protocol-Version"] = "2026-07-28"
wrk.headers["Mcp-Method"] = "tools/call"
wrk.headers["Mcp-Name"] = "{tool}"

function request()
  local body = string.format([[{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{
"name":"{tool}","arguments":{{"kind":"products",{arguments}}},"_meta":{{
"io.modelcontextprotocol/protocolVersion":"2026-07-28",
"io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}]], math.random({high}))
  return wrk.format("POST", "/v1/mcp", nil, body)
end
"""


def agents(shop: Workshop) -> None:
    """Reading, listing and creating, as a tool and plainly, in one server. To read a record is
    noted alone: the plain GET has no body to receive."""
    data = shop.portico_data(MIDDLE).copied(shop.fresh("portico-agents"))
    with portico.serving(data, shop.log) as server:
        check_answer(server, f"{portico.PRODUCTS}?limit=25", b'"total_items":%d' % MIDDLE)
        read = Request(f"{portico.PRODUCTS}/{{N}}", high=MIDDLE)
        listing = Request(f"{portico.PRODUCTS}?page={{N}}&limit=25", high=MIDDLE // 25)
        product = catalog.new_product()
        create = Request(portico.PRODUCTS, "POST", product, high=10**8, digits=9)
        _beside_plain(shop, server, "read_record", '"id":%d', read, bound=None)
        _beside_plain(shop, server, "list_records", '"filters":{"page":%d}', listing)
        values = f'"values":{product.replace("{N}", "%d")}'
        _beside_plain(shop, server, "create_record", values, create)


def _beside_plain(
    shop: Workshop,
    server: Running,
    tool: str,
    arguments: str,
    plain: Request,
    bound: float | None = CALL_BOUND,
) -> None:
    script = _CALL.format(tool=tool, arguments=arguments, high=plain.high)
    called = Job(f"{tool} as a tool", server, Request("/v1/mcp", script=script))
    what = f"{tool}: processor time of a tool call ÷ of the plain request"
    _compare(shop, "agents", what, called, Job(f"{tool} plainly", server, plain), bound)
