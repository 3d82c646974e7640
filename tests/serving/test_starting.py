"""What a server does as it starts, and how it refuses to."""

import errno
import os
import signal
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from operating import (
    COMMAND,
    Installation,
    free_port,
    until,
)
from portico.secret_file import NAME, SecretError, Secrets, installation_secrets
from portico.settings import load
from scheduling import policy_of_a_thread
from servers import PostgresServer

WRONG, MISUSED = 1, 2


def test_fresh_directory_is_prepared_and_its_secrets_are_shown_once(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    with installation.serving(program=(*COMMAND, "serve")) as service:
        assert service.said.count("sk_live_") == 2, "as such, and in the curl line"
        assert "sk_" not in service.text
        assert service.ask("/healthz").json == {"status": "ok"}
        assert service.stop()[0] == 0
    with installation.serving() as again:
        assert "sk_live_" not in again.said


# The secret of the installation


def test_many_starts_at_once_make_one_secret(tmp_path: Path) -> None:
    settings = load({"data": str(tmp_path)}, {}, tmp_path)
    made: list[Secrets] = []

    def while_others_start(size: int) -> bytes:
        if len(made) < 3:
            made.append(())
            made.append(installation_secrets(settings, while_others_start))
        return os.urandom(size)

    made.append(installation_secrets(settings, while_others_start))
    assert {one for one in made if one} == {((tmp_path / NAME).read_bytes().strip(),)}


def test_secret_is_on_disk_before_anything_is_encrypted_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, stored = os.fsync, []

    def seen(descriptor: int) -> None:
        is_directory = os.path.samestat(os.fstat(descriptor), tmp_path.stat())
        stored.append(is_directory and (tmp_path / NAME).exists())
        store(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    installation_secrets(load({"data": str(tmp_path)}, {}, tmp_path), os.urandom)
    assert stored[-1]


def test_secret_that_finds_no_room_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SecretError, match=r"secret\.key cannot be used: No space left on device"):
        installation_secrets(load({"data": str(tmp_path)}, {}, tmp_path), os.urandom)
    assert list(tmp_path.iterdir()) == []


# What the system gives


def policies(pid: int) -> dict[str, int]:
    """The scheduling policy of every thread of a process, by the thread's number."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):  # it has ended meanwhile
            found[task.name] = os.sched_getscheduler(int(task.name))
    return found


def test_threads_run_under_sched_batch_and_hash_logins_under_sched_idle(
    installation: Installation,
) -> None:
    login = {"email": "admin@example.com", "password": "none of theirs"}
    with installation.serving() as service:
        assert service.ask("/v1/users/me", key=installation.key).status == 200
        before = policies(service.process.pid)
        ours = os.sched_getscheduler(0)
        expected = policy_of_a_thread(os.SCHED_BATCH) if ours == os.SCHED_OTHER else ours
        assert {*before.values()} == {expected}
        assert service.ask("/v1/sessions", method="POST", body=login).status == 401
        after = policies(service.process.pid)
        added = {policy for task, policy in after.items() if task not in before}
        assert policy_of_a_thread(os.SCHED_IDLE) in added


def test_limit_of_open_files_is_raised_to_its_most(installation: Installation) -> None:
    with installation.serving() as service:
        limits = Path(f"/proc/{service.process.pid}/limits").read_text()
        found = next(line for line in limits.splitlines() if line.startswith("Max open files"))
        soft, most = map(int, found.split()[3:5])
        assert soft >= min(most, 16_000)


# Refusals


def require_refused(installation: Installation, code: int, *said: str) -> None:
    found, line = installation.refused("serve")
    assert found == code, line
    assert not [words for words in said if words not in line], line


def test_second_server_is_kept_out_of_a_data_directory_until_the_first_is_killed(
    installation: Installation,
) -> None:
    with installation.serving() as service:
        other = installation.having(port=str(free_port()))
        require_refused(other, WRONG, f"process {service.process.pid}", str(installation.data))
        assert service.ask("/v1/users/me", key=installation.key).status == 200
        service.stop(signal.SIGKILL)
    with installation.serving() as again:
        assert again.ask("/v1/users/me", key=installation.key).status == 200


@pytest.mark.parametrize(
    ("password", "database", "said"),
    [("hushed", "postgres", "password"), (None, "missing", "does not exist")],
)
def test_postgresql_that_refuses_is_named_without_the_password(
    postgres: PostgresServer, tmp_path: Path, password: str | None, database: str, said: str
) -> None:
    right = urlsplit(postgres.url).password or ""
    url = postgres.url.replace(right, password or right).removesuffix("postgres") + database
    code, line = Installation(tmp_path).having(database_url=url).refused("serve")
    assert (code, said in line, (password or right) in line) == (WRONG, True, False)
    assert f"PostgreSQL at 127.0.0.1:{postgres.port}" in line


def test_postgresql_that_is_not_there_is_named_without_the_password(tmp_path: Path) -> None:
    url = f"postgresql://portico:hushed@127.0.0.1:{free_port()}/portico"
    code, line = Installation(tmp_path).having(database_url=url).refused("serve")
    assert (code, "nothing listens there" in line, "hushed" in line) == (WRONG, True, False)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"workers": "2"}, "valkey_url"),
        ({"valkey_url": "redis://127.0.0.1/0?no_such_option=1"}, "PORTICO_VALKEY_URL"),
    ],
)
def test_impossible_setting_is_misuse(
    installation: Installation, variables: dict[str, str], said: str
) -> None:
    require_refused(installation.having(**variables), MISUSED, said)


def test_key_that_is_not_the_certificates_is_misuse(installation: Installation) -> None:
    certificate, key = installation.data / "tls" / "server.pem", installation.directory / "own.key"
    private = ec.generate_private_key(ec.SECP256R1())
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    given = installation.having(tls_cert=str(certificate), tls_key=str(key))
    require_refused(given, MISUSED, "tls_key", f"{key} is not the private key of {certificate}")


def test_local_authority_is_left_as_it_is_where_another_certificate_serves(
    installation: Installation,
) -> None:
    tls, own = installation.data / "tls", installation.directory
    for kind in ("pem", "key"):
        (own / f"own.{kind}").write_bytes((tls / f"server.{kind}").read_bytes())
    (tls / "server.pem").unlink()
    before = {path.name: path.read_bytes() for path in tls.iterdir()}
    given = installation.having(tls_cert=str(own / "own.pem"), tls_key=str(own / "own.key"))
    with given.serving() as service:
        assert (service.stop()[0], service.text) == (0, "")
    assert {path.name: path.read_bytes() for path in tls.iterdir()} == before


def test_server_whose_valkey_is_away_starts_and_says_so(installation: Installation) -> None:
    away = installation.having(valkey_url=f"redis://127.0.0.1:{free_port()}/0")
    with away.serving() as service:
        assert service.ask("/readyz").json["stores"] == {"database": "ok", "limiter": "silent"}
        refused = service.ask("/v1/users/me", key=installation.key)
        assert refused.error == (503, "SERVICE_UNAVAILABLE")
        assert int(refused.headers["retry-after"]) >= 1
        until(lambda: "does not answer" in service.text)
