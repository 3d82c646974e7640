"""Creates an event of every type, as it is delivered.

python tests/event_examples.py    # writes the examples of docs/events.md
"""

import asyncio
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from documents import ROOT
from driving import Api, Caller, settings_for
from portico.core.audit import OPERATOR
from portico.core.events import EVENT_SCOPES, PING
from portico.core.plans import Plan
from portico.core.requests import Quotas
from portico.core.users import User
from portico.environment import Environment
from portico.features.access.api_keys import renew_key, revoke_key
from portico.features.catalogue.products import PRODUCTS
from portico.features.events.payloads import delivered
from portico.features.events.storage import Events
from portico.features.people.accounts import give_key, tell_quotas
from portico.features.people.sandbox import reset
from portico.resource.file_rows import FileRow
from portico.resource.imports import store_in_batches

TARGET = ROOT / "docs/events.md"

_LAMP: dict[str, Any] = {
    "name": "Desk lamp",
    "category": "lighting",
    "price": 24.5,
    "stock_quantity": 12,
    "status": "active",
}
_ROW = _LAMP | {"price": 245_000}
_GRACE = {"name": "Grace Hopper", "email": "grace@example.com", "password": "Cobol-1959x"}


async def examples(api: Api) -> dict[str, dict[str, Any]]:
    """The body of a delivery of every type, by type, each from a change made in `api`."""
    admin = await api.caller("admin")
    after = await api.live[Events].last_id()
    await _products(api, admin)
    await _users(api, admin)
    await _keys(api, admin.user)
    hook = {"url": "https://hooks.example.com/in", "types": ["*"]}
    made = (await admin.post("/webhooks", json=hook)).json()["data"]["id"]
    await admin.post(f"/webhooks/{made}/test")
    found = await _told(api.live, after)
    await reset(api.sandbox, OPERATOR)
    found |= await _told(api.sandbox, 0)
    return {name: found[name] for name in (*EVENT_SCOPES, PING)}


async def _products(api: Api, admin: Caller) -> None:
    made = (await admin.post("/products", json=_LAMP)).json()["data"]["id"]
    api.clock.advance(seconds=61)
    await admin.patch(f"/products/{made}", json={"price": 19.95, "stock_quantity": 0})
    api.clock.advance(seconds=61)
    await admin.delete(f"/products/{made}")
    async for _ in store_in_batches(api.live, PRODUCTS, [FileRow(1, 0, _ROW, [])] * 3, OPERATOR):
        pass


async def _users(api: Api, admin: Caller) -> None:
    made = (await admin.post("/users", json=_GRACE)).json()["data"]["id"]
    api.clock.advance(seconds=61)
    await admin.patch(f"/users/{made}", json={"role": "editor"})
    await admin.patch(f"/users/{made}/account", json={"plan": "pro"})
    api.live[Quotas].used(made, Plan("monthly", 100, 10_000, 1_000_000), 800_000, api.clock())
    await tell_quotas(api.live)
    api.clock.advance(seconds=61)
    await admin.delete(f"/users/{made}")


async def _keys(api: Api, owner: User) -> None:
    key, _ = await give_key(
        api.live, owner, name="Storefront", key_type="live", expires_at=None, by=OPERATOR
    )
    api.clock.advance(seconds=61)
    await renew_key(api.live, key.id, OPERATOR)
    api.clock.advance(seconds=61)
    await revoke_key(api.live, key.id, OPERATOR)


async def _told(env: Environment, after: int) -> dict[str, dict[str, Any]]:
    """The bodies of deliveries of the events after the one with this number, by type."""
    await env[Events].number()
    numbers = [event.id for event in await env[Events].to_tell(after, 1_000)]
    events = await env[Events].some(numbers)
    return {events[id_].type: json.loads(delivered(events[id_])) for id_ in numbers}


def sections(found: dict[str, dict[str, Any]]) -> str:
    """The examples as Markdown: a section for each type."""
    parts = []
    for name, event in found.items():
        scope = EVENT_SCOPES.get(name)
        seen = f"Seen with `{scope}`." if scope else "Sent to the webhook that is tested, once."
        text = re.sub(r"(sk_\w+_…)\w+", r"\1x7Qd", json.dumps(event, indent=2, ensure_ascii=False))
        parts.append(f"## {name}\n\n{seen}\n\n```json\n{text}\n```\n\n")
    return "\n" + "".join(parts)


async def _write() -> None:
    with TemporaryDirectory() as directory:
        async with Api(settings_for(Path(directory), {})) as api:
            made = sections(await examples(api))
    before, start, rest = TARGET.read_text("utf-8").partition("<!-- examples -->\n")
    end = rest[rest.index("<!-- /examples -->") :]
    TARGET.write_text(before + start + made + end, "utf-8")


if __name__ == "__main__":
    asyncio.run(_write())
