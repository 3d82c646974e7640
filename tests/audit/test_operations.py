"""What each operation of the API leaves in the audit log and in the events, by the table of routes:
exactly this where it succeeds, and nothing where it is refused or changes nothing."""

from typing import NamedTuple

import httpx
import pytest

from audit.conftest import last
from contract.test_permissions import CASES, COOKIES, PUBLIC, filled, targets_of
from documents import document
from driving import BASE, Api, Caller
from portico.core.audit import Entry
from portico.features.events.audit import Audit
from portico.features.events.commands.audit import actions
from portico.features.events.storage import Events
from portico.mounts import V1
from signing_in import COOKIE, PASSWORD, session_of

pytestmark = pytest.mark.one_engine

LEAVES: dict[tuple[str, str], tuple[str, str | None]] = {
    ("POST", "/users"): ("user.created", "user.created"),
    ("PATCH", "/users/me"): ("user.updated", "user.updated"),
    ("PATCH", "/users/{id}"): ("user.updated", "user.updated"),
    ("DELETE", "/users/{id}"): ("user.deleted", "user.deleted"),
    ("PATCH", "/users/{id}/account"): ("user.updated", "account.updated"),
    ("POST", "/products"): ("product.created", "product.created"),
    ("POST", "/products/batch"): ("product.created", "product.created"),
    ("PATCH", "/products/{id}"): ("product.updated", "product.updated"),
    ("DELETE", "/products/{id}"): ("product.deleted", "product.deleted"),
    ("POST", "/api-keys"): ("api_key.created", "api_key.created"),
    ("DELETE", "/api-keys/{id}"): ("api_key.revoked", "api_key.revoked"),
    ("POST", "/api-keys/rotate"): ("api_key.rotated", "api_key.rotated"),
    ("POST", "/sessions"): ("sign_in", None),
    ("DELETE", "/sessions"): ("sign_out", None),
    ("POST", "/invitations"): ("invitation.created", None),
    ("DELETE", "/invitations/{id}"): ("invitation.revoked", None),
    ("POST", "/invitations/{id}/renew"): ("invitation.created", None),
    ("POST", "/clients"): ("client.created", None),
    ("PATCH", "/clients/{id}"): ("client.updated", None),
    ("DELETE", "/clients/{id}"): ("client.deleted", None),
    ("POST", "/clients/{id}/rotate-secret"): ("client.secret_renewed", None),
    ("POST", "/webhooks"): ("webhook.created", None),
    ("PATCH", "/webhooks/{id}"): ("webhook.updated", None),
    ("DELETE", "/webhooks/{id}"): ("webhook.deleted", None),
    ("POST", "/webhooks/{id}/rotate-secret"): ("webhook.secret_rotated", None),
    ("POST", "/webhooks/{id}/test"): ("webhook.tested", "ping"),
    ("POST", "/webhooks/{id}/deliveries/{delivery_id}/redeliver"): ("webhook.redelivered", None),
}
"""The one entry and the one event of each operation that changes something."""
REFUSABLE = [one for one in LEAVES if CASES[one].needs not in (PUBLIC, COOKIES)]
REPEATABLE = [one for one in LEAVES if one[0] != "POST"]
"""Those that may change nothing: every POST makes something new."""


def test_every_operation_that_changes_something_is_in_the_table() -> None:
    operations = {(route.method, route.path) for route in V1}
    assert LEAVES.keys() == {one for one in operations if CASES[one].changes(one[0])}


class Asked(NamedTuple):
    """The answer to an operation, and what it left: entries, and types of events."""

    answer: httpx.Response
    entries: list[Entry]
    events: list[str]


async def ask(api: Api, caller: Caller, operation: tuple[str, str], *, times: int = 1) -> Asked:
    """Asks for an operation, with a session where it needs one. Returns what the last time left."""
    (method, path), case = operation, CASES[operation]
    person = await api.account(password=PASSWORD)
    url = BASE["live"] + filled(path, await targets_of(api, api.live, caller.user))
    if case.needs == COOKIES:
        del caller.headers["authorization"]
        caller.headers["cookie"] = f"{COOKIE}={await session_of(api.live, caller.user)}"
    body = case.body(1, person)
    for _ in range(times):
        since, known = await last(api.live), await events(api)
        answer = await caller.request(method, url, json=body)
    entries = [entry for entry in await api.live[Audit].page(limit=100) if entry.id > since]
    return Asked(answer, entries, (await events(api))[len(known) :])


async def events(api: Api) -> list[str]:
    """The types of all events, oldest first."""
    await api.live[Events].number()
    return [row[0] for row in await api.live.db.all("SELECT type FROM events ORDER BY id")]


@pytest.mark.parametrize("operation", LEAVES, ids=" ".join)
async def test_an_operation_leaves_one_entry_that_says_who_and_one_event(
    api: Api, operation: tuple[str, str]
) -> None:
    await api.account("admin")  # so that nobody is the last
    caller = await api.caller("admin")
    asked = await ask(api, caller, operation)
    assert asked.answer.is_success, asked.answer.text
    action, event = LEAVES[operation]
    (entry,) = asked.entries
    assert entry.action == action
    assert asked.events == ([event] if event else [])
    assert (entry.address, entry.request_id) == ("127.0.0.1", asked.answer.headers["x-request-id"])
    if operation in REFUSABLE:
        assert (entry.user_id, entry.email) == (caller.user.id, caller.user.email)
        assert (entry.credential, entry.credential_id) == ("api_key", caller.record.id)
    else:
        assert entry.credential == "session"


@pytest.mark.parametrize("operation", REFUSABLE, ids=" ".join)
async def test_an_operation_that_is_refused_leaves_nothing(
    api: Api, operation: tuple[str, str]
) -> None:
    asked = await ask(api, await api.caller("admin", "read"), operation)
    assert (asked.answer.status_code, asked.entries, asked.events) == (403, [], [])


@pytest.mark.parametrize("operation", REPEATABLE, ids=" ".join)
async def test_a_change_that_is_there_already_leaves_nothing(
    api: Api, operation: tuple[str, str]
) -> None:
    await api.account("admin")
    asked = await ask(api, await api.caller("admin"), operation, times=2)
    assert (asked.entries, asked.events) == ([], []), asked.answer.text


def test_documented_actions_are_all_that_the_log_may_have() -> None:
    documented = [
        action
        for row, _ in document("docs/operations/audit-log.md").rows("audit actions")
        for action in row.split(", ")
    ]
    assert sorted(documented) == sorted(actions())
