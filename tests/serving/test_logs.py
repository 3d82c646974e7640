"""The log: JSON lines that tell each request and its caller, and never a secret."""

from select import PIPE_BUF

import pytest

from operating import COMMAND, Installation


def test_every_request_has_a_line_with_its_id_and_caller_that_a_pipe_keeps_together(
    installation: Installation,
) -> None:
    words = ("--scope", "read:users", "--grant", "client_credentials")
    made = installation.told("clients", "create", "--name", "Till", *words)
    form = {"grant_type": "client_credentials", "client_id": made["client_id"]}
    with installation.serving() as service:
        line = service.line_of(service.ask("/v1/users/me?", key=installation.key))
        assert (line["method"], line["path"], line["status"]) == ("GET", "/v1/users/me", 200)
        assert (line["user_id"], line["credential"], line["credential_id"]) == (1, "api_key", 1)
        assert line["milliseconds"] > 0
        line = service.line_of(service.ask("/v1/products/12"))
        assert (line["status"], line["user_id"], line["credential"]) == (401, None, None)
        assert line["address"] == "127.0.0.1"
        form["client_secret"] = made["client_secret"]
        given = service.ask("/auth/token", method="POST", form=form)
        line = service.line_of(service.ask("/v1/users/me", key=given.json["access_token"]))
        assert (line["credential"], line["client_id"]) == ("oauth", made["client_id"])
        path = "/v1/" + "%01" * 5_000
        line = service.line_of(service.ask(path, key=installation.key, method="M" * 5_000))
        assert line["path"] == "/v1/" + "\x01" * 508 + "…"
        assert line["method"] == "M" * 32 + "…"
        assert max(len(text.encode()) + 1 for text in service.text.splitlines()) <= PIPE_BUF


def test_no_secret_reaches_the_log_wherever_it_was_put(installation: Installation) -> None:
    canary, password = installation.key, "Canary-Passw0rd"
    body = {"name": "Ann", "email": "ann@example.com", "password": password}
    with installation.serving() as service:
        for path in (f"/v1/users/{canary}", f"/v1/users?search={canary}", f"/{canary}/{canary}"):
            service.ask(path, key=canary, headers={"x-key": canary, "cookie": f"a={canary}"})
        service.ask("/v1/users", key=canary, method=f"{canary}")
        service.ask("/v1/users", headers={"authorization": f"Basic {canary}"})
        assert service.post("/v1/users", body | {"x": canary}).status == 400
        last = service.post("/v1/users", body)
        assert last.status == 201
        assert service.stop()[0] == 0
        assert service.line_of(last), "of the last request before a stop too"
        for secret in (canary, canary[8:40], password):
            assert secret not in service.text
        assert "(redacted)" in service.text


def test_log_that_nobody_reads_holds_up_neither_requests_nor_a_stop(
    installation: Installation,
) -> None:
    unread = 'mkfifo unread && exec 3<>unread && exec "$@" 2>unread'
    with (
        installation.serving(program=("sh", "-c", unread, "sh", *COMMAND, "serve")) as service,
        service.connect() as connection,
    ):
        for _ in range(600):  # a pipe has room for some 300 lines
            assert service.ask("/healthz", connection=connection).status == 200
        assert service.stop()[0] == 0


@pytest.mark.parametrize("setting", [{"log_requests": "off"}, {"log_level": "warning"}])
def test_requests_are_not_logged_where_the_operator_says_so(
    installation: Installation, setting: dict[str, str]
) -> None:
    with installation.having(**setting).serving() as service:
        assert service.ask("/v1/users/me", key=installation.key).status == 200
        assert (service.stop()[0], service.text) == (0, "")


def test_every_line_is_json_with_time_level_and_event(installation: Installation) -> None:
    away = installation.having(valkey_url="redis://127.0.0.1:1/0", log_level="debug")
    with away.serving() as service:
        service.line_of(service.ask("/v1/users/me", key=installation.key))
        lines = service.lines
    assert all({"time", "level", "event"} <= set(line) for line in lines)
    assert {"warning", "info"} <= {line["level"] for line in lines}
