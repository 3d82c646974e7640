"""A row about connections: many persistent ones, and many short ones."""

from contextlib import ExitStack
from dataclasses import replace

from bench.throughput import GET, mean_body
from bench.workshop import MIDDLE, Job, Workshop

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
