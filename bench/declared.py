"""The row of declared kinds: what a team's own kind costs beside products."""

from dataclasses import replace
from pathlib import Path

from bench import catalog, portico
from bench.load import Request
from bench.servers import Running
from bench.workshop import MIDDLE, Job, Workshop, check_answer

KINDS = Path(__file__).parent / "twin"
"""Declares `items`, with the fields of products."""
BOUND = 1.05
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
            _compare(shop, server, name, Request(path, high=high))
        post = Request("", "POST", catalog.new_product(), high=10**8, digits=9)
        _compare(shop, server, "POST", post)


def _compare(shop: Workshop, server: Running, name: str, request: Request) -> None:
    """Sends the same request to both lists."""
    jobs = [
        Job(f"{name} of {many}", server, replace(request, path=f"/v1/{many}{request.path}"))
        for many in ("items", "products")
    ]
    items, products = (series.cpu_us or 0.0 for series in shop.interleave("declared", jobs))
    what = f"{name}: processor time of items ÷ of products"
    shop.at_most("declared", what, items / products, "x", BOUND, void=not products)
