"""Lists that are longer than what is read at a time: complete, in order, and all or nothing."""

from argparse import Namespace
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from operating import Installation, in_database
from portico.cli.listing import ListForm, print_list
from portico.core.errors import Unavailable
from portico.data.table import AT_ONCE
from portico.environment import Environment
from portico.settings import load

MANY = 2 * AT_ONCE + 1
NUMBERS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
USERS = """
INSERT INTO users (id, name, name_key, email, email_key, role, plan, theme, language, notifications,
    created_at, updated_at)
NUMBERS SELECT 100 + i, 'Ada', 'ada', i || '@example.com', i || '@example.com', 'viewer', 'free',
    'system', 'en', 0, i, i FROM n"""
# Sessions and logins begin in turn, sessions at even times.
SESSIONS = """
INSERT INTO sessions (user_id, token_hash, address, user_agent, created_at, last_seen_at,
    expires_at)
NUMBERS SELECT 100 + i, CAST(i AS BLOB), '', 'Tester/' || i, 2 * i, 4e12, 4e12 FROM n"""
LOGINS = """
INSERT INTO grants (user_id, scopes, address, user_agent, created_at, last_used_at, expires_at)
NUMBERS SELECT 100 + i, '', '', 'Tester/' || i, 2 * i + 1, 1, 4e12 FROM n"""
KEYS = """
INSERT INTO api_keys (user_id, name, type, hint, key_hash, created_at)
NUMBERS SELECT 100 + i, 'Till ' || i, 'live', '', CAST(i AS BLOB), 1 FROM n"""
CLIENTS = """
INSERT INTO oauth_clients (client_id, user_id, name, redirect_uris, scopes, created_at)
NUMBERS SELECT 'client-' || i, CASE WHEN i > 1 THEN 100 + i END, 'Till', '[]', '', 1 FROM n"""


@pytest.fixture
def full(installation: Installation) -> Installation:
    """An installation with many rows of each kind."""
    for statement in (USERS, SESSIONS, LOGINS, KEYS, CLIENTS):
        in_database(installation.data / "live.db", statement.replace("NUMBERS", NUMBERS), MANY)
    return installation


def numbered(rows: list[dict[str, Any]], name: str) -> list[str]:
    return [row[name] for row in rows]


def test_a_long_list_is_complete_and_in_order(full: Installation) -> None:
    emails = [f"{number}@example.com" for number in range(1, MANY + 1)]

    assert numbered(full.told("users", "list", "--role", "viewer"), "email") == emails
    keys = [row for row in full.told("keys", "list") if row["name"].startswith("Till")]
    assert numbered(keys, "owner") == emails
    assert numbered(full.told("clients", "list"), "owner") == [None, *emails[1:]]
    newest_first = [email for email in reversed(emails) for _ in ("login", "session")]
    signed_in = full.told("sessions", "list")
    assert numbered(signed_in, "owner") == newest_first
    kinds = [name.partition("-")[0] for name in numbered(signed_in, "id")]
    assert kinds == ["login", "session"] * MANY


def test_a_list_that_cannot_be_read_to_its_end_is_not_begun(
    installation: Installation, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    async def found(failing: list[int], _: Environment) -> AsyncIterator[list[int]]:
        yield [1, 2]
        yield []
        if failing:
            raise Unavailable("The database does not answer.")
        yield [3]

    settings = load({"data": str(installation.data)}, {}, installation.directory)
    form = ListForm[int](lambda number: {"id": number}, ("ID",), lambda one: (str(one),), "None.")
    for as_json in (True, False):
        chosen = Namespace(json=as_json, sandbox=False)
        with pytest.raises(Unavailable):
            print_list(settings, chosen, form, partial(found, [1]))
        assert capsysbinary.readouterr().out == b""
        print_list(settings, chosen, form, partial(found, []))
        out = capsysbinary.readouterr().out
        assert out == (b'[{"id":1},{"id":2},{"id":3}]\n' if as_json else b"ID\n1\n2\n3\n")
