"""A row about connections: many that stay, and many that come and go."""

from contextlib import ExitStack
from dataclasses import replace

from bench.throughput import GET
from bench.workshop import MIDDLE, Job, Workshop

MANY = 1_000


def connections(shop: Workshop) -> None:
    """GET one product over 1,000 connections that stay, and over a new one for each request."""
    with ExitStack() as stack:
        ours = stack.enter_context(shop.portico(MIDDLE, tls_on=True))
        fastify = stack.enter_context(shop.fastify(MIDDLE, tls_on=True))
        many, new = replace(GET, connections=MANY), replace(GET, keep_alive=False)
        jobs = [
            Job(f"GET over {GET.connections} connections", ours, GET),
            Job(f"GET over {MANY:,} connections", ours, many),
            Job("GET over a new connection each", ours, new),
            Job("GET over a new one each, Fastify", fastify, new),
        ]
        over_few, over_many, over_new, fastify_new = shop.interleave("connections", jobs)
    what = f"{MANY:,} connections that stay ÷ {GET.connections}, TLS"
    shop.ratio("connections", what, over_many, over_few, 0.9)
    what = "new connections, Portico ÷ Fastify, both over TLS"
    shop.ratio("connections", what, over_new, fastify_new, 1.5)
