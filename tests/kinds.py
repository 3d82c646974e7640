"""The kinds of resources of the API, for rules that hold for all of them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import httpx

from signing_in import PASSWORD

Body = dict[str, Any]


class Kind(NamedTuple):
    """Bodies that create resources, by a number, and changes of one."""

    new: Callable[[int], Body]
    changes: tuple[Body, ...] = ()


KINDS = {
    "/users": Kind(
        lambda n: {"name": f"Ada {n}", "email": f"ada{n}@example.com", "password": PASSWORD},
        (
            {"name": "Changed"},
            {"email": "changed@example.com"},
            {"role": "editor"},
            {"avatar_url": "https://example.com/a.png"},
            {"preferences": {"theme": "dark"}},
            {"preferences": {"language": "de"}},
            {"preferences": {"notifications": False}},
        ),
    ),
    "/products": Kind(
        lambda n: {"name": f"Lamp {n}", "category": "light", "price": 12.5},
        (
            {"name": "Changed"},
            {"description": "Changed"},
            {"category": "changed"},
            {"price": 7},
            {"currency": "EUR"},
            {"stock_quantity": 7},
            {"status": "archived"},
            {"metadata": {"a": "b"}},
        ),
    ),
    "/webhooks": Kind(
        lambda n: {"url": f"https://hooks.example.com/{n}", "types": ["product.*"]},
        (
            {"url": "https://hooks.example.com/changed"},
            {"types": ["*"]},
            {"description": "Changed"},
        ),
    ),
    "/api-keys": Kind(lambda n: {"name": f"Key {n}", "type": "live"}),
}
"""By the path of their list."""

CHANGEABLE = [path for path, kind in KINDS.items() if kind.changes]


async def create(caller: httpx.AsyncClient, path: str, number: int = 0, **more: Any) -> str:
    """The path of a new resource."""
    answer = await caller.post(path, json=KINDS[path].new(number) | more)
    assert answer.status_code == 201, answer.text
    return f"{path}/{answer.json()['data']['id']}"
