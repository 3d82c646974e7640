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


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {DATABASE: "postgresql://u:p@127.0.0.1:5432/portico", VALKEY: "redis://localhost:6379"},
        {DATABASE: "postgresql://u:p@[::1]:5432,LOCALHOST/portico"},
        {DATABASE: "postgresql:///portico"},
        {DATABASE: "postgresql:///portico?host=/var/run/postgresql"},
        {DATABASE: "postgresql:///portico?host=127.0.0.1:5433,localhost"},
        {DATABASE: "postgresql://u:p@%2Fvar%2Frun%2Fpostgresql/portico"},
        {DATABASE: VERIFIED, READ: VERIFIED, LISTEN: VERIFIED},
        {DATABASE: VERIFIED.replace("full", "ca")},
        {VALKEY: "valkeys://cache.test:6379"},
        {VALKEY: "rediss+sentinel://h1:26379,h2:26379/main"},
    ],
)
def test_a_store_of_this_machine_or_one_that_is_verified_is_well(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    assert noticed(tmp_path, **environ) == {}


@pytest.mark.parametrize("mode", ["", "?sslmode=prefer", "?sslmode=require", "?sslmode=disable"])
def test_a_database_elsewhere_that_anybody_could_pose_as_is_noticed(
    tmp_path: Path, mode: str
) -> None:
    told = noticed(tmp_path, **{DATABASE: f"postgresql://u:p@h1:5432,127.0.0.1,h2/portico{mode}"})
    assert told == {
        "TLS to PostgreSQL": "h1, h2: PORTICO_DATABASE_URL does not require TLS with a verified"
        " certificate"
    }


@pytest.mark.parametrize("hosts", ["h1:5432,127.0.0.1,h2", "h1,h2"])
def test_the_hosts_may_be_in_the_query_or_in_the_drivers_own_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: str
) -> None:
    plain = "postgresql://u:p@/portico"
    (told,) = noticed(tmp_path, **{DATABASE: f"{plain}?host={hosts}"}).values()
    assert told.startswith("h1, h2: PORTICO_DATABASE_URL ")
    monkeypatch.setenv("PGHOST", hosts)
    assert noticed(tmp_path, **{DATABASE: plain}) == {"TLS to PostgreSQL": told}
    assert noticed(tmp_path, **{VALKEY: "redis://"}) == {}


@pytest.mark.parametrize(
    "url", ["redis://:p@h1:6379", "valkey://h1", "valkey+cluster://h1:6379,127.0.0.1:6379"]
)
def test_a_valkey_elsewhere_without_tls_is_noticed(tmp_path: Path, url: str) -> None:
    (told,) = noticed(tmp_path, **{VALKEY: url}).values()
    assert told.startswith("h1: PORTICO_VALKEY_URL ")
