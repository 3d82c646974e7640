"""The steps of docs/services.md, from ten lines to a service behind Portico."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from documents import document
from operating import Answer, Installation, Service, free_port, until
from portico.settings import load

GUIDE = document("docs/services.md")


def step(language: str, number: int = 0) -> str:
    """A block in a language, the first by default."""
    return [block.text for block in GUIDE.blocks if block.language == language][number]


def answers(port: int) -> bool:
    """Whether something listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The server after all steps."""
    home: Path = tmp_path_factory.mktemp("guide")
    (home / "invoices.py").write_text(step("python"))
    write, *runs = step("sh").splitlines()
    write = write.replace("python ", f"{sys.executable} ", 1)
    subprocess.run(write, shell=True, cwd=home, check=True)  # noqa: S602 - a line of our own
    text = step("toml")
    with ExitStack() as stack:
        for run in runs:
            written, port = run.split()[-2], free_port()
            assert written in text
            text = text.replace(f":{written}", f":{port}")
            command = run.replace(written, str(port)).removesuffix(" &").split()
            argv = [sys.executable, "-m", *command, "--log-level", "error"]
            process = stack.enter_context(subprocess.Popen(argv, cwd=home))
            stack.callback(process.terminate)
            until(partial(answers, port), "uvicorn")
        (home / "portico.toml").write_text(text)
        yield stack.enter_context(Installation(home).prepared().serving())


def key_of(server: Service, role: str) -> tuple[int, str]:
    """A new user's id and key."""
    admin = server.installation.key
    person = {"name": role, "email": f"{role}@example.com", "password": f"Aa1-{role}-x"}
    made = ask(server, "/v1/users", admin, "POST", {**person, "role": role}).json["data"]
    body = {"name": role, "type": "live", "user_id": made["id"]}
    key = ask(server, "/v1/api-keys", admin, "POST", body).json["data"]
    return made["id"], key["key"]


def ask(
    server: Service, path: str, key: str | None, method: str = "GET", body: object = None
) -> Answer:
    return server.ask(path, method=method, key=key, body=body)


def test_the_service_has_scopes_a_limit_a_sandbox_and_its_reference(server: Service) -> None:
    viewer, reading = key_of(server, "viewer")
    _, paying = key_of(server, "editor")
    seen = ask(server, "/v1/invoices/1", reading)
    assert seen.json == {"number": 1, "due": 40, "read_by": str(viewer)}
    assert ask(server, "/v1/invoices/1", None).status == 401
    assert ask(server, "/v1/invoices/1/pay", reading, "POST").status == 403
    paid = [ask(server, "/v1/invoices/1/pay", paying, "POST") for _ in range(3)]
    assert [one.status for one in paid] == [200, 200, 429]
    assert paid[0].json == {"number": 1, "paid": 40}
    assert ask(server, "/v1/invoices/1", reading).json["due"] == 0
    testing = server.installation.facts["keys"]["test"]
    assert ask(server, "/sandbox/v1/invoices/1", testing).json["due"] == 40
    page = ask(server, "/v1/docs/services/invoices/docs", None)
    assert (page.status, "Read Invoice" in page.text) == (200, True)


def test_the_call_by_a_program_works_as_it_is_written(server: Service) -> None:
    admin = server.installation.key
    narrow = {"name": "Service", "type": "live", "scopes": ["verify"]}
    key = ask(server, "/v1/api-keys", admin, "POST", narrow).json["data"]["key"]
    written = step("sh", 1)
    assert "sk_live_…" in written
    said = server.installation.shell(written.replace("sk_live_…", admin), SERVICE_KEY=key)
    verdict = json.loads(said)["data"]
    assert (verdict["valid"], verdict["user"]["role"]) == (True, "admin")


def test_the_declaration_of_everything_is_one(tmp_path: Path) -> None:
    (tmp_path / "portico.toml").write_text(step("toml", 1))
    settings = load({}, {}, tmp_path)
    service = settings.declared.services["invoices"]
    assert service.audience_at(settings.base_url) == "https://invoices.example.com"
    assert settings.plans["pro"].per_month == 1_000_000
