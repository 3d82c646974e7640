"""What was revoked stays revoked, also where the server is killed right after it said so."""

import signal
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import pytest

from oauth.authority import ROOMY, Authority
from operating import Answer, Installation, Service, read_answer
from servers import PostgresServer


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def prepared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Installation:
    """An installation on each engine."""
    directory = tmp_path_factory.mktemp(request.param)
    (directory / "portico.toml").write_text(ROOMY)
    variables = {}
    if request.param == "postgres":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        variables = {"database_url": postgres.fresh_database()}
    empty = Installation(directory, variables)
    return Installation(directory, variables, empty.told("init"), empty.port)


@contextmanager
def killed(service: Service) -> Iterator[None]:
    """Whatever was answered in here is the last thing that the server did."""
    yield
    service.process.send_signal(signal.SIGKILL)
    service.process.wait()


def signed_in(service: Service, path: str) -> Answer:
    """The answer to a good e-mail and password."""
    facts = service.installation.facts["admin"]
    body = {"email": facts["email"], "password": facts["password"]}
    answer = service.ask(path, method="POST", body=body)
    assert answer.status == (201 if path.endswith("/sessions") else 200), answer.text
    return answer


def cookie_of(answer: Answer) -> dict[str, str]:
    """The header that brings a session's cookie back."""
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}


def posted(service: Service, path: str, client: dict[str, str], **form: str) -> Answer:
    """The answer to a client's form."""
    text = urlencode(form)
    secret = b64encode(f"{client['client_id']}:{client['client_secret']}".encode()).decode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic {secret}\r\n"
        f"content-type: application/x-www-form-urlencoded\r\ncontent-length: {len(text)}\r\n\r\n"
    )
    with service.connect() as connection:
        connection.sendall((head + text).encode())
        return read_answer(connection)


def test_ended_session_stays_ended_after_a_kill(prepared: Installation) -> None:
    with prepared.serving() as service:
        cookie = cookie_of(signed_in(service, "/v1/sessions"))
        assert service.ask("/v1/users/me", headers=cookie).status == 200
        with killed(service):
            ended = service.ask("/v1/sessions", method="DELETE", headers=cookie)
            assert ended.status == 204
    with prepared.serving() as service:
        assert service.ask("/v1/users/me", headers=cookie).status == 401


def test_session_survives_a_kill(prepared: Installation) -> None:
    with prepared.serving() as service, killed(service):
        cookie = cookie_of(signed_in(service, "/v1/sessions"))
    with prepared.serving() as service:
        assert service.ask("/v1/users/me", headers=cookie).status == 200


def test_login_ended_by_refresh_reuse_stays_ended_after_a_kill(prepared: Installation) -> None:
    with prepared.serving() as service:
        tokens = signed_in(service, "/auth/login").json
        once = {"refresh_token": tokens["refresh_token"]}
        renewed = service.ask("/auth/refresh", method="POST", body=once).json
        with killed(service):
            assert service.ask("/auth/refresh", method="POST", body=once).status == 401
    with prepared.serving() as service:
        for token in (tokens["access_token"], renewed["access_token"]):
            assert service.ask("/v1/users/me", key=token).status == 401
        again = {"refresh_token": renewed["refresh_token"]}
        assert service.ask("/auth/refresh", method="POST", body=again).status == 401


def test_revoked_oauth_tokens_stay_revoked_after_a_kill(prepared: Installation) -> None:
    authority = Authority(prepared)
    with prepared.serving() as service:
        registered = authority.register()
        client = {
            "client_id": registered.client_id,
            "client_secret": registered.client_secret,
        }
        with authority.browser() as browser:
            left_for = browser.decide(authority.asking(registered))
        code = left_for.partition("code=")[2].partition("&")[0]
        tokens: dict[str, Any] = authority.exchange(registered, code).json()
        assert service.ask("/v1/products", key=tokens["access_token"]).status == 200
        with killed(service):
            told = posted(service, "/auth/revoke", client, token=tokens["refresh_token"])
            assert told.status == 200
    with prepared.serving() as service:
        assert service.ask("/v1/products", key=tokens["access_token"]).status == 401
        told = posted(service, "/auth/introspect", client, token=tokens["refresh_token"])
        assert told.json == {"active": False}


def test_password_change_survives_a_kill(prepared: Installation) -> None:
    admin = prepared.facts["admin"]
    with prepared.serving() as service:
        cookie = cookie_of(signed_in(service, "/v1/sessions"))
        token = signed_in(service, "/auth/login").json["access_token"]
        with killed(service):
            changed = service.ask(
                f"/v1/users/{admin['id']}",
                method="PATCH",
                key=prepared.key,
                body={"password": "Another1", "current_password": admin["password"]},
            )
            assert changed.status == 200
    with prepared.serving() as service:
        assert service.ask("/v1/users/me", headers=cookie).status == 401
        assert service.ask("/v1/users/me", key=token).status == 401
        assert service.ask("/v1/users/me", key=prepared.key).status == 200
        body = {"email": admin["email"], "password": admin["password"]}
        assert service.ask("/auth/login", method="POST", body=body).status == 401
