"""The log: JSON lines that tell each request and its caller, and never a secret."""

from select import PIPE_BUF

from operating import COMMAND, Installation


def test_every_request_has_a_line_with_its_id_and_caller(installation: Installation) -> None:
    with installation.serving() as service:
        known = service.ask("/v1/users/me?", key=installation.key)
        unknown = service.ask("/v1/products/12")
        line = service.line_of(known)
        assert (line["method"], line["path"], line["status"]) == ("GET", "/v1/users/me", 200)
        assert (line["user_id"], line["credential"], line["credential_id"]) == (1, "api_key", 1)
        assert line["milliseconds"] > 0
        line = service.line_of(unknown)
        assert (line["status"], line["user_id"], line["credential"]) == (401, None, None)
        assert line["address"] == "127.0.0.1"


def test_no_request_makes_a_line_that_a_pipe_does_not_keep_together(
    installation: Installation,
) -> None:
    with installation.serving() as service:
        path = "/v1/" + "%01" * 5_000
        answer = service.ask(path, key=installation.key, method="M" * 5_000)
        line = service.line_of(answer)
        assert service.stop()[0] == 0
        assert line["path"] == "/v1/" + "\x01" * 508 + "…"
        assert line["method"] == "M" * 32 + "…"
        assert max(len(text.encode()) + 1 for text in service.text.splitlines()) <= PIPE_BUF


def test_no_secret_reaches_the_log_wherever_it_was_put(installation: Installation) -> None:
    canary = installation.key
    password = "Canary-Passw0rd"
    with installation.serving() as service:
        for path in (f"/v1/users/{canary}", f"/v1/users?search={canary}", f"/{canary}/{canary}"):
            service.ask(path, key=canary, headers={"x-key": canary, "cookie": f"a={canary}"})
        service.ask("/v1/users", key=canary, method=f"{canary}")
        service.ask("/v1/users", headers={"authorization": f"Basic {canary}"})
        body = {"name": "Ann", "email": "ann@example.com", "password": password, "x": canary}
        assert service.ask("/v1/users", key=canary, method="POST", body=body).status == 400
        del body["x"]
        last = service.ask("/v1/users", key=canary, method="POST", body=body)
        assert last.status == 201
        service.line_of(last)
        assert service.stop()[0] == 0
        for secret in (canary, canary[8:40], password):
            assert secret not in service.text
        assert "(redacted)" in service.text


def test_the_last_requests_before_a_stop_are_logged_too(installation: Installation) -> None:
    with installation.serving() as service:
        ids = {
            service.ask("/v1/users/me", key=installation.key).headers["x-request-id"]
            for _ in range(5)
        }
        assert service.stop()[0] == 0
        assert {line["request_id"] for line in service.lines} == ids


def test_a_log_that_nobody_reads_holds_up_neither_requests_nor_a_stop(
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


def test_requests_are_not_logged_where_the_operator_says_so(installation: Installation) -> None:
    with installation.having(log_requests="off").serving() as service:
        assert service.ask("/v1/users/me", key=installation.key).status == 200
        assert service.stop()[0] == 0
        assert service.text == ""


def test_requests_are_not_logged_where_less_than_warnings_is_not(
    installation: Installation,
) -> None:
    with installation.having(log_level="warning").serving() as service:
        assert service.ask("/v1/users/me", key=installation.key).status == 200
        assert service.stop()[0] == 0
        assert service.text == ""


def test_every_line_is_json_with_time_level_and_event(installation: Installation) -> None:
    away = installation.having(valkey_url="redis://127.0.0.1:1/0", log_level="debug")
    with away.serving() as service:
        answer = service.ask("/v1/users/me", key=installation.key)
        service.line_of(answer)
        lines = service.lines
        assert all({"time", "level", "event"} <= set(line) for line in lines)
        assert {"warning", "info"} <= {line["level"] for line in lines}
