"""Rows of requests per second: GET one, the list, durable writes, small and large catalogues."""

from contextlib import ExitStack

from bench import catalog, pocketbase, portico
from bench.load import Request
from bench.servers import Running
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
