"""Stores on other machines that nobody verifies are noticed (OWASP ASVS 5.0, 12.3.1 and 12.3.2)."""

from pathlib import Path

import pytest

from driving import settings_for
from portico.features.operations.commands.network_checks import store_tls

DATABASE, READ, LISTEN, VALKEY = (
    f"PORTICO_{name}_URL" for name in ("DATABASE", "DATABASE_READ", "DATABASE_LISTEN", "VALKEY")
)
VERIFIED = "postgresql://u:p@db.test/portico?sslmode=verify-full"


@pytest.fixture(autouse=True)
def _no_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGSSLMODE", "PGHOST"):
        monkeypatch.delenv(name, raising=False)


def noticed(data: Path, **environ: str) -> dict[str, str]:
    """What is noticed with these variables: the message by check."""
    found = list(store_tls(settings_for(data, environ)))
    assert all(finding.ok and finding.advice for finding in found)
    assert all(":p@" not in finding.message + finding.advice for finding in found)
    return {finding.check: finding.message for finding in found}


PLAIN = "does not require TLS with a verified certificate"
SEVERAL = "postgresql://u:p@h1:5432,127.0.0.1,h2/portico"
NOTICED = {"TLS to PostgreSQL": f"h1, h2: {DATABASE} {PLAIN}"}


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({}, {}),
        ({DATABASE: "postgresql://u:p@127.0.0.1/portico", VALKEY: "redis://localhost:6379"}, {}),
        ({DATABASE: "postgresql://u:p@[::1]:5432,LOCALHOST/portico"}, {}),
        ({DATABASE: "postgresql:///portico", VALKEY: "redis://"}, {}),
        ({DATABASE: "postgresql:///portico?host=/var/run/postgresql"}, {}),
        ({DATABASE: VERIFIED, READ: VERIFIED, LISTEN: VERIFIED}, {}),
        ({DATABASE: VERIFIED.replace("full", "ca")}, {}),
        ({VALKEY: "valkeys://cache.test:6379"}, {}),
        ({VALKEY: "rediss+sentinel://h1:26379,h2:26379/main"}, {}),
        ({DATABASE: SEVERAL}, NOTICED),
        ({DATABASE: f"{SEVERAL}?sslmode=require"}, NOTICED),
        ({DATABASE: "postgresql://u:p@/portico?host=h1:5432,127.0.0.1,h2"}, NOTICED),
        ({DATABASE: "postgresql://u:p@/portico", "PGHOST": "h1,h2"}, NOTICED),
        (
            {VALKEY: "valkey+cluster://h1:6379,127.0.0.1:6379"},
            {"TLS to Valkey": f"h1: {VALKEY} {PLAIN}"},
        ),
    ],
    ids=str,
)
def test_store_elsewhere_that_nobody_verifies_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], told: dict[str, str]
) -> None:
    if "PGHOST" in environ:
        monkeypatch.setenv("PGHOST", environ["PGHOST"])
    given = {name: value for name, value in environ.items() if name != "PGHOST"}
    assert noticed(tmp_path, **given) == told
