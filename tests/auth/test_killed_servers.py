"""What was revoked stays revoked, also where the server is killed right after it said so."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from oauth.authority import ROOMY, Authority
from operating import Answer, Installation, Service


@pytest.fixture
def prepared(tmp_path: Path) -> Installation:
    """An installation on SQLite; that PostgreSQL keeps what it commits is its own."""
    (tmp_path / "portico.toml").write_text(ROOMY)
    empty = Installation(tmp_path)
    return Installation(tmp_path, facts=empty.told("init"), port=empty.port)


@contextmanager
def killed(installation: Installation) -> Iterator[Service]:
    """A server that is killed right after its last answer."""
    with installation.serving() as service:
        yield service
        service.process.send_signal(signal.SIGKILL)
        service.process.wait()


def signed_in(service: Service, path: str) -> Answer:
    """The answer to a good e-mail and password."""
    facts = service.installation.facts["admin"]
    body = {"email": facts["email"], "password": facts["password"]}
    return service.ask(path, method="POST", body=body)


def cookie_of(answer: Answer) -> dict[str, str]:
    """The header that brings a session's cookie back."""
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}


def test_ended_credentials_stay_ended_and_others_survive_after_kills(
    prepared: Installation,
) -> None:
    authority = Authority(prepared)
    admin = prepared.facts["admin"]
    with killed(prepared) as service:
        kept = cookie_of(signed_in(service, "/v1/sessions"))
        ended = cookie_of(signed_in(service, "/v1/sessions"))
        login = signed_in(service, "/auth/login").json
        once = {"refresh_token": login["refresh_token"]}
        renewed = service.ask("/auth/refresh", method="POST", body=once).json
        registered = authority.register()
        with authority.browser() as browser:
            left_for = browser.decide(authority.asking(registered))
        code = left_for.partition("code=")[2].partition("&")[0]
        tokens: dict[str, Any] = authority.exchange(registered, code).json()
        for headers in (kept, ended):
            assert service.ask("/v1/users/me", headers=headers).status == 200
        for token in (renewed["access_token"], tokens["access_token"]):
            assert service.ask("/v1/users/me", key=token).status == 200
        assert service.ask("/v1/sessions", method="DELETE", headers=ended).status == 204
        assert service.ask("/auth/refresh", method="POST", body=once).status == 401
        revoked = {"token": tokens["refresh_token"], "client_id": registered.client_id}
        revoked["client_secret"] = registered.client_secret
        assert service.ask("/auth/revoke", method="POST", body=revoked).status == 200
    with killed(prepared) as service:
        assert service.ask("/v1/users/me", headers=kept).status == 200
        assert service.ask("/v1/users/me", headers=ended).status == 401
        for token in (login["access_token"], renewed["access_token"], tokens["access_token"]):
            assert service.ask("/v1/users/me", key=token).status == 401
        told = service.ask("/auth/introspect", method="POST", body=revoked)
        assert told.json == {"active": False}
        changed = service.ask(
            f"/v1/users/{admin['id']}",
            method="PATCH",
            key=prepared.key,
            body={"password": "Another1", "current_password": admin["password"]},
        )
        assert changed.status == 200
    with prepared.serving() as service:
        assert service.ask("/v1/users/me", headers=kept).status == 401
        assert service.ask("/v1/users/me", key=prepared.key).status == 200
        assert signed_in(service, "/auth/login").status == 401
