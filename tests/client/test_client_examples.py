"""Every example of both clients, run as its first lines say, against a real server."""

import json
import re
import secrets
import signal
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest

from client.delivering import BODY, left_unfinished, signed
from client.programs import PYTHON, TYPESCRIPT, key_of, listening, one_worker, running, tried
from oauth.authority import Authority
from oauth.visiting import Browser
from operating import TIMEOUT_SECONDS, free_port, until
from portico_client import Client

Example = Callable[[str], tuple[str, str]]


@pytest.fixture(params=["python", pytest.param("typescript", marks=one_worker)])
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def example(request: pytest.FixtureRequest, language: str) -> Example:
    """The command that runs an example, by its name."""
    if language == "python":
        return python
    package: Path = request.getfixturevalue("package")
    return lambda name: ("node", str(package / f"examples/{name}.js"))


def python(name: str) -> tuple[str, str]:
    return sys.executable, str(PYTHON / f"examples/{name}.py")


def test_every_example_is_run_here() -> None:
    own = Path(__file__).read_text()
    for home, suffix in ((PYTHON, "*.py"), (TYPESCRIPT, "*.js")):
        for found in (home / "examples").glob(suffix):
            assert f'("{found.stem}")' in own


def test_products_are_listed_by_filters(
    served: Authority, client: Client, example: Example
) -> None:
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
    done = tried(served, *example("list_products"), *asked)
    assert done.returncode == 0, done.stderr
    *lines, total = done.stdout.splitlines()
    assert [line.split("USD")[1].strip() for line in lines] == ["Lamp at 30", "Lamp at 10"]
    assert total == "2 products"


def test_a_file_is_made_into_products_once(
    served: Authority, client: Client, example: Example, language: str, tmp_path: Path
) -> None:
    category, file = secrets.token_hex(6), tmp_path / "products"
    prices = [*(f"{number}.25" for number in range(30)), "-1"]
    if language == "python":
        lines = ["name,category,price", *(f"Lamp,{category},{price}" for price in prices)]
        lines.append(f"Odd,{category},many")
        faults = {"line 32: price must not be negative", "line 33: price 'many' is not a number"}
    else:
        lamp = {"name": "Lamp", "category": category}
        lines = [*(json.dumps({**lamp, "price": float(price)}) for price in prices), "no JSON"]
        faults = {"line 31: price must not be negative", "line 32: it is not JSON"}
    file.write_text("\n".join(lines))
    for _ in range(2):
        done = tried(served, *example("bulk_create"), str(file))
        assert done.returncode == 1, done.stderr
        *told, total = done.stdout.splitlines()
        assert (set(told), total) == (faults, "30 created, 2 wrong")
    found = client.products.list(category=category, status="draft").page(1).pagination
    assert found.total_items == 30


def test_a_service_lets_in_who_brings_a_token(
    served: Authority, example: Example, tmp_path: Path
) -> None:
    person = served.person("viewer")
    body = {"email": person.email, "password": person.password}
    with served.client() as anybody:
        token = anybody.post(f"{served.issuer}/login", json=body).json()["access_token"]
    with (
        listening(served, tmp_path / "said", *example("verify_token"), str(free_port())) as address,
        httpx.Client(timeout=TIMEOUT_SECONDS) as caller,
    ):
        known = caller.get(address, headers={"authorization": f"Bearer {token}"})
        told = {"user": person.id, "name": "Grace Hopper", "role": "viewer"}
        assert (known.status_code, known.json()) == (200, told)
        unknown = caller.get(address, headers={"authorization": f"Bearer {token[:-4]}AAAA"})
        assert (unknown.status_code, "signature" in unknown.json()["error"]) == (401, True)
        assert caller.get(address).status_code == 401


def test_a_receiver_prints_each_event_once(
    served: Authority, client: Client, example: Example, tmp_path: Path
) -> None:
    hook = client.webhooks.create(url="https://shop.example/hooks", types=["product.created"])
    headers = signed(at=int(datetime.now(UTC).timestamp()), secrets=(hook.secret,))
    said, argv = tmp_path / "said", (*example("receive_webhooks"), str(free_port()))
    with (
        listening(served, said, *argv, WEBHOOK_SECRET=hook.secret) as address,
        httpx.Client(base_url=address, timeout=TIMEOUT_SECONDS) as sender,
    ):
        refused = sender.post("/", content=BODY + b" ", headers=headers)
        assert (refused.status_code, "signature" in refused.text) == (400, True)
        left_unfinished(int(address.rstrip("/").rpartition(":")[2]))
        for _ in range(2):
            assert sender.post("/", content=BODY, headers=headers).status_code == 204
        client.webhooks.update(hook.id, url=address)
        client.products.create(name="Delivered lamp", category="delivered", price=1)
        until(lambda: "Delivered lamp" in said.read_text(), "the event")
    client.webhooks.delete(hook.id)
    assert said.read_text().count("product.updated") == 1


def test_events_are_printed_once_however_often_one_starts(
    served: Authority, client: Client, example: Example, tmp_path: Path
) -> None:
    *_, last = client.events.list()
    place, said = tmp_path / "last-event", tmp_path / "said"
    place.write_text(str(last.id))
    told: list[str] = []
    for name in ("Lamp 1", "Lamp 2"):
        client.products.create(name=name, category="followed", price=1)
        *_, newest = client.events.list(after=last.id)
        with running(served, said, *example("follow_events"), str(place)) as process:
            until(lambda: place.read_text() == str(newest.id), "the event")  # noqa: B023 - at once
            process.send_signal(signal.SIGINT)
            assert process.wait(TIMEOUT_SECONDS) == 0
        told += said.read_text().splitlines()
    assert [line.split()[1] for line in told] == ["product.created", "product.created"]


@pytest.fixture
def browser(served: Authority) -> Iterator[Browser]:
    """A browser with a new editor before it."""
    with served.browser() as opened:
        yield opened


def test_a_web_application_signs_users_in(
    served: Authority, browser: Browser, tmp_path: Path
) -> None:
    registered = served.register("http://127.0.0.1/callback", scope="read:products read:users")
    own = {"CLIENT_ID": registered.client_id, "CLIENT_SECRET": registered.client_secret}
    argv = (*python("web_login"), str(free_port()))
    with (
        listening(served, tmp_path / "said", *argv, **own) as address,
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


def test_a_limit_is_waited_for_elsewhere(served: Authority, client: Client) -> None:
    made = [
        client.products.create(name="Lamp", category="limits", price=1, status="active").id
        for _ in range(4)
    ]
    argv = (*python("handle_limits"), "--after", str(made[0] - 1))
    patient = tried(served, *argv)
    assert patient.returncode == 0, patient.stderr
    assert [int(line.split()[0]) for line in patient.stdout.splitlines()][-4:] == made
    hasty = tried(
        *(served, *argv, "--patience", "0"),
        PORTICO_API_KEY=key_of(served, "viewer", "tiny"),
    )
    assert hasty.returncode == 75, hasty.stderr
    assert hasty.stdout.splitlines() == [f"{made[0]} Lamp 0", f"{made[1]} Lamp 0"]
    assert re.fullmatch(rf"--after {made[1]}  # in \d+ seconds\n", hasty.stderr)
