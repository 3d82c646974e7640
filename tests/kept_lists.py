"""Lists whose answers are kept, and how often they were."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from driving import Api, Caller

LISTS = ("/products", "/products?category=light", "/products?search=lamp")


class Counts(NamedTuple):
    """What the metrics tell."""

    hits: int
    misses: int
    size: int


async def counts(api: Api) -> Counts:
    text = (await api.stranger().get("https://localhost:8443/metrics")).text
    told = dict(re.findall(r"^portico_kept_representations_(\S+) (\S+)$", text, re.MULTILINE))
    return Counts(*(int(float(told[name])) for name in ("hits_total", "misses_total", "bytes")))


@asynccontextmanager
async def counted(api: Api, *, hits: int = 0, misses: int = 0) -> AsyncIterator[None]:
    """What happens inside has so many hits and misses."""
    before = await counts(api)
    yield
    after = await counts(api)
    assert (after.hits - before.hits, after.misses - before.misses) == (hits, misses)


async def shown(caller: Caller, path: str) -> Any:
    answer = await caller.get(path)
    assert answer.status_code == 200
    return answer.json()["data"]
