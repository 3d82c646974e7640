"""A row of cached representations: how much they save, with and without concurrent changes."""

import re
from contextlib import ExitStack

from bench import portico
from bench.load import Request, wrk
from bench.servers import Running
from bench.throughput import LIST
from bench.workshop import MIDDLE, Job, Workshop

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
