"""A server that cannot start says why in one line, with the exit code that scripts rely on."""

import errno
import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from operating import (
    COMMAND,
    PATIENCE_SECONDS,
    Installation,
    Service,
    free_port,
    in_database,
    until,
)
from portico.secret_file import NAME, SecretError, Secrets, installation_secrets
from portico.settings import load
from scheduling import policy_of_a_thread
from servers import PostgresServer

WRONG, MISUSED = 1, 2


def test_a_fresh_directory_is_prepared_and_its_secrets_are_shown_once(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    with installation.serving(program=(*COMMAND, "serve")) as service:
        assert service.said.count("sk_live_") == 2, "as such, and in the curl line"
        assert "sk_" not in service.text
        assert service.ask("/healthz").json == {"status": "ok"}
        assert service.stop()[0] == 0
    with installation.serving() as again:
        assert "sk_live_" not in again.said


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


def test_a_secret_is_on_disk_under_its_name_before_anything_is_encrypted_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load({"data": str(tmp_path)}, {}, tmp_path)
    store, stored = os.fsync, False

    def seen(descriptor: int) -> None:
        nonlocal stored
        is_directory = os.path.samestat(os.fstat(descriptor), tmp_path.stat())
        stored = is_directory and (tmp_path / NAME).exists()
        store(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    installation_secrets(settings, os.urandom)
    assert stored


def test_a_secret_that_finds_no_room_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load({"data": str(tmp_path)}, {}, tmp_path)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SecretError, match=r"secret\.key cannot be used: No space left on device"):
        installation_secrets(settings, os.urandom)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["port", "http_port"])
def test_a_port_in_use_is_named(installation: Installation, name: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, line = installation.having(**{name: str(port)}).refused("serve")
    assert code == WRONG
    assert f"port {port} is in use" in line


def policies(pid: int) -> dict[str, int]:
    """The scheduling policy of every thread of a process, by the thread's number."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):  # it has ended meanwhile
            found[task.name] = os.sched_getscheduler(int(task.name))
    return found


def test_threads_of_a_server_run_under_sched_batch(installation: Installation) -> None:
    with installation.serving() as service:
        assert service.ask("/v1/users/me", key=installation.key).status == 200
        ours = os.sched_getscheduler(0)
        expected = policy_of_a_thread(os.SCHED_BATCH) if ours == os.SCHED_OTHER else ours
        assert {*policies(service.process.pid).values()} == {expected}


LOGIN = {"email": "admin@example.com", "password": "none of theirs"}


def test_a_login_is_hashed_by_a_thread_under_sched_idle(installation: Installation) -> None:
    with installation.serving() as service:
        before = policies(service.process.pid)
        assert service.ask("/v1/sessions", method="POST", body=LOGIN).status == 401
        after = policies(service.process.pid)
        added = {policy for task, policy in after.items() if task not in before}
        assert policy_of_a_thread(os.SCHED_IDLE) in added


def test_a_second_server_is_kept_out_of_a_data_directory(installation: Installation) -> None:
    with installation.serving() as service:
        code, line = installation.having(port=str(free_port())).refused("serve")
        assert code == WRONG
        assert f"process {service.process.pid}" in line
        assert str(installation.data) in line
        assert service.ask("/v1/users/me", key=installation.key).status == 200


def test_a_server_follows_one_that_was_killed(installation: Installation) -> None:
    with installation.serving() as service:
        service.stop(signal.SIGKILL)
    with installation.serving() as again:
        assert again.ask("/v1/users/me", key=installation.key).status == 200


def test_a_database_newer_than_the_program_is_left_alone(installation: Installation) -> None:
    newer = "INSERT INTO schema_migrations VALUES (9999, 'of_tomorrow', 'x', 1, NULL)"
    in_database(installation.data / "sandbox.db", newer)
    before = (installation.data / "sandbox.db").read_bytes()
    code, line = installation.refused("serve")
    assert code == WRONG
    assert "9999 (of_tomorrow)" in line
    assert "newer Portico" in line
    assert (installation.data / "sandbox.db").read_bytes() == before


def test_a_file_that_is_no_database_is_named_and_left_alone(installation: Installation) -> None:
    file = installation.data / "live.db"
    file.write_text("no database at all, and long enough to be none" * 100)
    before = file.read_bytes()
    code, line = installation.refused("serve")
    assert (code, "live.db cannot be opened" in line) == (WRONG, True)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("password", "database", "said"),
    [("hushed", "postgres", "password"), (None, "missing", "does not exist")],
)
def test_a_postgres_that_refuses_is_named_without_the_password(
    postgres: PostgresServer, tmp_path: Path, password: str | None, database: str, said: str
) -> None:
    right = urlsplit(postgres.url).password or ""
    url = postgres.url.replace(right, password or right).removesuffix("postgres") + database
    code, line = Installation(tmp_path).having(database_url=url).refused("serve")
    assert code == WRONG
    assert f"PostgreSQL at 127.0.0.1:{postgres.port}" in line
    assert said in line
    assert (password or right) not in line


def test_a_postgres_that_is_not_there_is_named_without_the_password(tmp_path: Path) -> None:
    url = f"postgresql://portico:hushed@127.0.0.1:{free_port()}/portico"
    code, line = Installation(tmp_path).having(database_url=url).refused("serve")
    assert code == WRONG
    assert "nothing listens there" in line
    assert "hushed" not in line


def test_a_balancer_without_a_postgres_behind_it_is_told_from_one(tmp_path: Path) -> None:
    def hang_up() -> None:
        with suppress(OSError):  # the end of the test
            while True:
                listener.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        pool.submit(hang_up)
        url = f"postgresql://portico:hushed@127.0.0.1:{listener.getsockname()[1]}/portico"
        try:
            code, line = Installation(tmp_path).having(database_url=url).refused("serve")
        finally:
            listener.shutdown(socket.SHUT_RDWR)
    assert code == WRONG
    assert "the server there closed the connection" in line
    assert "hushed" not in line


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"workers": "2"}, "valkey_url"),
        ({"tls": "off"}, "trusted_proxies"),
        ({"prot": "8443"}, "PORTICO_PORT"),
        ({"valkey_url": "redis://127.0.0.1/0?no_such_option=1"}, "PORTICO_VALKEY_URL"),
    ],
)
def test_an_impossible_setting_is_misuse(
    installation: Installation, variables: dict[str, str], said: str
) -> None:
    code, line = installation.having(**variables).refused("serve")
    assert code == MISUSED
    assert said in line


def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def test_a_key_that_is_not_the_certificates_is_misuse(installation: Installation) -> None:
    certificate = installation.data / "tls" / "server.pem"
    key = installation.directory / "other.key"
    key.write_bytes(pem(ec.generate_private_key(ec.SECP256R1())))
    given = installation.having(tls_cert=str(certificate), tls_key=str(key))
    code, line = given.refused("serve")
    assert code == MISUSED
    assert "tls_key" in line
    assert f"{key} is not the private key of {certificate}" in line


@pytest.mark.parametrize("lost", ["ca.key", "ca.pem", "server.pem"])
def test_where_an_own_certificate_serves_the_local_authority_is_left_as_it_is(
    installation: Installation, lost: str
) -> None:
    tls = installation.data / "tls"
    own = [installation.directory / name for name in ("own.pem", "own.key")]
    for name, file in zip(("server.pem", "server.key"), own, strict=True):
        file.write_bytes((tls / name).read_bytes())
    (tls / lost).unlink()
    before = {path.name: path.read_bytes() for path in tls.iterdir()}
    given = installation.having(
        tls_cert=str(own[0]),
        tls_key=str(own[1]),
        dashboard_url="https://dash.example.org/dashboard",  # which the authority may not sign
    )
    with given.serving() as service:
        assert service.stop()[0] == 0
        assert service.text == ""
    assert {path.name: path.read_bytes() for path in tls.iterdir()} == before


def test_a_directory_within_a_file_is_misuse(installation: Installation) -> None:
    (installation.directory / "file").write_text("")
    code, line = installation.having(data=str(installation.directory / "file" / "in")).refused(
        "serve"
    )
    assert code == MISUSED
    assert line.endswith("file' is not one")


def test_a_server_whose_valkey_is_away_starts_and_says_so(installation: Installation) -> None:
    away = installation.having(valkey_url=f"redis://127.0.0.1:{free_port()}/0")
    with away.serving() as service:
        assert service.ask("/healthz").status == 200
        assert service.ask("/readyz").json["stores"] == {"database": "ok", "limiter": "silent"}
        refused = service.ask("/v1/users/me", key=installation.key)
        assert refused.error == (503, "SERVICE_UNAVAILABLE")
        assert int(refused.headers["retry-after"]) >= 1
        until(lambda: "does not answer" in service.text)


def test_the_limit_of_open_files_is_raised_to_its_most(installation: Installation) -> None:
    with installation.serving() as service:
        limits = Path(f"/proc/{service.process.pid}/limits").read_text()
        soft, most = next(
            line.split()[3:5] for line in limits.splitlines() if line.startswith("Max open files")
        )
        assert int(soft) >= min(int(most), 16_000)


def test_a_server_that_may_open_too_few_files_for_clients_says_so(
    installation: Installation,
) -> None:
    few = ("sh", "-c", 'ulimit -n 128 && exec "$@"', "sh", *COMMAND, "serve")
    service = Service(installation, (), few)
    try:
        assert service.process.wait(PATIENCE_SECONDS) == WRONG
        assert "too few open files" in service.text
        assert service.said == ""
    finally:
        service.end()
