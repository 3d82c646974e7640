"""Every example, run as its first lines say, against a real server."""

import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest

from client.delivering import BODY, left_unfinished, signed
from documents import ROOT
from oauth.authority import Authority
from oauth.visiting import Browser
from operating import TIMEOUT_SECONDS, free_port, until
from portico_client import Client

EXAMPLES = ROOT / "clients/python/examples"


def environment(served: Authority, **more: str) -> dict[str, str]:
    """What the examples find in their environment."""
    kept = {name: value for name, value in os.environ.items() if "PORTICO" not in name}
    own = {
        "PORTICO_API_KEY": served.installation.key,
        "PORTICO_BASE_URL": served.api,
        "PORTICO_AUTH_URL": served.issuer,
        "PORTICO_CA": str(served.certificate),
    }
    return {**kept, **own, **more}


def run(
    served: Authority, example: str, *arguments: str, **more: str
) -> "subprocess.CompletedProcess[str]":
    """An example, to its end."""
    argv = [sys.executable, str(EXAMPLES / example), *arguments]
    own = environment(served, **more)
    return subprocess.run(
        argv, env=own, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS * 3
    )


@contextmanager
def running(
    served: Authority, directory: Path, example: str, *arguments: str, **more: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """An example that goes on, and writes what it prints into a file."""
    argv = [sys.executable, str(EXAMPLES / example), *arguments]
    with (directory / "said").open("wb") as output:
        process = subprocess.Popen(argv, env=environment(served, **more), stdout=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def listening(served: Authority, directory: Path, example: str, **more: str) -> Iterator[str]:
    """The address of an example that serves."""
    said = directory / "said"
    with running(served, directory, example, str(free_port()), **more) as process:
        until(lambda: said.read_text() or process.poll() is not None, "the start")
        yield said.read_text().strip()


def test_every_example_is_run_here() -> None:
    own = Path(__file__).read_text()
    for example in EXAMPLES.glob("*.py"):
        assert f'"{example.name}"' in own


def test_products_are_listed_by_filters(served: Authority, client: Client) -> None:
    category = secrets.token_hex(6)
    for price, stock in ((10, 1), (20, 0), (30, 2), (40, 3)):
        client.products.create(
            name=f"Lamp at {price}",
            category=category,
            price=price,
            stock_quantity=stock,
            status="active",
        )
    asked = ("--category", category, "--max-price", "30.5", "lamp")
    done = run(served, "list_products.py", *asked)
    assert done.returncode == 0, done.stderr
    *lines, total = done.stdout.splitlines()
    assert [line.split("USD")[1].strip() for line in lines] == ["Lamp at 30", "Lamp at 10"]
    assert total == "2 products"


def test_a_file_is_made_into_products_once(
    served: Authority, client: Client, tmp_path: Path
) -> None:
    category, file = secrets.token_hex(6), tmp_path / "products.csv"
    rows = [f"Lamp {number},{category},{number}.25" for number in range(30)]
    rows += [f"Dear,{category},-1", f"Odd,{category},many"]
    file.write_text("\n".join(["name,category,price", *rows]))
    for _ in range(2):
        done = run(served, "bulk_create.py", str(file))
        assert done.returncode == 1, done.stderr
        assert done.stdout.splitlines()[-1] == "30 created, 2 wrong"
        assert "line 32: price must not be negative" in done.stdout
        assert "line 33: price 'many' is not a number" in done.stdout
        assert "32 of 32" in done.stderr
    found = client.products.list(category=category, status="draft").page(1).pagination
    assert found.total_items == 30


@pytest.fixture
def browser(served: Authority) -> Iterator[Browser]:
    """A browser with a new editor before it."""
    with served.browser() as opened:
        yield opened


def test_a_web_application_signs_users_in(
    served: Authority, browser: Browser, tmp_path: Path
) -> None:
    registered = served.register("http://127.0.0.1/callback", scope="read:products read:users")
    secrets_ = {"CLIENT_ID": registered.client_id, "CLIENT_SECRET": registered.client_secret}
    with (
        listening(served, tmp_path, "web_login.py", **secrets_) as address,
        httpx.Client(base_url=address, timeout=TIMEOUT_SECONDS) as visitor,
    ):
        link = re.search(r"href='([^']+)'", visitor.get("/").text)
        assert link is not None
        began = visitor.get(link[1])
        callback = browser.decide(began.headers["location"])
        with httpx.Client(base_url=address, timeout=TIMEOUT_SECONDS) as other:
            assert other.get(callback).status_code == 400, "another browser cannot use it"
        arrived = visitor.get(callback)
        welcome = visitor.get(urljoin(callback, arrived.headers["location"]))
        assert welcome.text.startswith("Hello Grace Hopper, there are ")
        assert visitor.get(callback).status_code == 400, "nor this one twice"
        began = visitor.get(link[1])
        refused = visitor.get(browser.decide(began.headers["location"], "deny"))
        assert refused.status_code == 403


def test_a_service_lets_in_who_brings_a_token(served: Authority, tmp_path: Path) -> None:
    person = served.person("viewer")
    body = {"email": person.email, "password": person.password}
    with served.client() as anybody:
        token = anybody.post(f"{served.issuer}/login", json=body).json()["access_token"]
    with (
        listening(served, tmp_path, "verify_token.py") as address,
        httpx.Client(timeout=TIMEOUT_SECONDS) as caller,
    ):
        known = caller.get(address, headers={"authorization": f"Bearer {token}"})
        assert (known.status_code, known.json()["user"]) == (200, person.id)
        assert known.json()["role"] == "viewer"
        unknown = caller.get(address, headers={"authorization": f"Bearer {token[:-4]}AAAA"})
        assert (unknown.status_code, unknown.json()) == (401, {"error": "its signature is invalid"})
        assert caller.get(address).status_code == 401


def test_a_receiver_prints_each_event_once(
    served: Authority, client: Client, tmp_path: Path
) -> None:
    hook = client.webhooks.create(url="https://shop.example/hooks", types=["product.created"])
    headers = signed(at=int(datetime.now(UTC).timestamp()), secrets=(hook.secret,))
    said, own = tmp_path / "said", {"WEBHOOK_SECRET": hook.secret}
    with (
        listening(served, tmp_path, "receive_webhooks.py", **own) as address,
        httpx.Client(base_url=address, timeout=TIMEOUT_SECONDS) as sender,
    ):
        refused = sender.post("/", content=BODY + b" ", headers=headers)
        assert refused.status_code == 400
        assert "none of its signatures is valid" in refused.text
        left_unfinished(int(address.rstrip("/").rpartition(":")[2]))
        for _ in range(2):
            assert sender.post("/", content=BODY, headers=headers).status_code == 204
        client.webhooks.update(hook.id, url=address)
        client.products.create(name="Delivered lamp", category="delivered", price=1)
        until(lambda: "Delivered lamp" in said.read_text(), "the event")
    client.webhooks.delete(hook.id)
    assert said.read_text().count("product.updated Product(id=3, name='Désk lamp'") == 1


def test_what_happens_is_printed_once_however_often_one_starts(
    served: Authority, client: Client, tmp_path: Path
) -> None:
    *_, last = client.events.list()
    place, said = tmp_path / "last-event", tmp_path / "said"
    place.write_text(str(last.id))
    told: list[str] = []
    for name in ("Lamp 1", "Lamp 2"):
        client.products.create(name=name, category="followed", price=1)
        with running(served, tmp_path, "follow_events.py", str(place)) as process:
            *_, newest = client.events.list(after=last.id)
            until(lambda: place.read_text() == str(newest.id), "the line")  # noqa: B023 - at once
            told += said.read_text().splitlines()
            process.send_signal(signal.SIGINT)
            assert process.wait(TIMEOUT_SECONDS) == 0
    assert [line.partition(" ")[2] for line in told] == [
        f"product.created Lamp {number}" for number in (1, 2)
    ]


def test_a_limit_is_waited_for_elsewhere(served: Authority, client: Client) -> None:
    made = [
        client.products.create(name="Lamp", category="limits", price=1, status="active").id
        for _ in range(4)
    ]
    patient = run(served, "handle_limits.py", "--after", str(made[0] - 1))
    assert patient.returncode == 0, patient.stderr
    assert [int(line.split()[0]) for line in patient.stdout.splitlines()][-4:] == made
    told = served.installation.told(
        *("users", "create", "--email", f"{secrets.token_hex(6)}@example.com"),
        *("--name", "Hasty", "--role", "viewer", "--plan", "tiny"),
    )
    key = served.installation.told(
        *("keys", "create", "--owner", told["email"], "--type", "live", "--name", "Hasty")
    )["key"]
    hasty = run(
        *(served, "handle_limits.py", "--patience", "0", "--after", str(made[0] - 1)),
        PORTICO_API_KEY=key,
    )
    assert hasty.returncode == 75, hasty.stderr
    assert hasty.stdout.splitlines() == [f"{made[0]} Lamp 0", f"{made[1]} Lamp 0"]
    assert re.fullmatch(rf"--after {made[1]}  # in \d+ seconds\n", hasty.stderr)
