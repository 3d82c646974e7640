"""`portico sandbox reset`."""

import io
from importlib.resources import files
from typing import Any

from beside import Running
from operating import Installation, in_database
from portico.features.catalogue.files import read_products
from portico.features.people.sandbox import SampleUser, read
from portico.features.people.schemas import ChangeUser
from portico.web.reading import Faults, read_object

CATALOG = [
    {"name": f"Zyzzyva {number}", "category": "junk", "price": 1, "status": "active"}
    for number in range(3)
]


def all_of(running: Running, path: str, *, sandbox: bool) -> list[dict[str, Any]]:
    get = running.get_sandbox if sandbox else running.get
    return [item for page in (1, 2, 3) for item in get(f"{path}limit=100&page={page}").json["data"]]


def products(running: Running, *, sandbox: bool) -> list[dict[str, Any]]:
    return [
        product
        for status in ("active", "draft", "archived")
        for product in all_of(running, f"/products?status={status}&", sandbox=sandbox)
    ]


def test_a_reset_replaces_all_but_mirrors_and_their_keys(on_each: Running) -> None:
    installation = on_each.installation
    for row in CATALOG:
        for base, key in (("/v1", installation.key), ("/sandbox/v1", on_each.test_key)):
            path = f"{base}/products"
            assert on_each.service.ask(path, key=key, method="POST", body=row).status == 201
    person = ["--email", "gone@example.com", "--name", "Gone Soon", "--role", "admin"]
    installation.told("users", "create", *person, "--sandbox")
    words = ["keys", "create", "--owner", "gone@example.com", "--type", "test", "--name", "G"]
    gone = installation.told(*words, "--sandbox")["key"]
    assert on_each.get_sandbox("/users/me", key=gone).status == 200
    assert on_each.total("search=zyzzyva", sandbox=True) >= 3
    live_users = all_of(on_each, "/users?", sandbox=False)
    live_products = products(on_each, sandbox=False)
    me = on_each.get_sandbox("/users/me").json["data"]

    told = installation.told("sandbox", "reset")

    assert told.keys() == {"users", "products", "mirrors"}
    assert on_each.get_sandbox("/users/me").json["data"] == me
    assert on_each.get_sandbox("/users/me", key=gone).status == 401
    users = all_of(on_each, "/users?", sandbox=True)
    assert len(users) == told["users"] + told["mirrors"]
    assert told["users"] == 12
    assert "gone@example.com" not in {user["email"] for user in users}
    catalog = products(on_each, sandbox=True)
    assert len(catalog) == told["products"] == 60
    assert "junk" not in {product["category"] for product in catalog}
    assert on_each.total("search=oak", sandbox=True) > 0
    assert on_each.total("search=zyzzyva", sandbox=True) == 0
    assert all_of(on_each, "/users?", sandbox=False) == live_users
    assert products(on_each, sandbox=False) == live_products


def test_every_reset_gives_the_same_but_for_ids_and_times(running: Running) -> None:
    def shown() -> list[dict[str, Any]]:
        return [
            {name: value for name, value in product.items() if name not in (*times, "id")}
            for product in products(running, sandbox=True)
        ]

    times = ("created_at", "updated_at")
    running.installation.told("sandbox", "reset")
    first, ids = shown(), {product["id"] for product in products(running, sandbox=True)}
    running.installation.told("sandbox", "reset")

    assert shown() == first
    assert ids.isdisjoint(product["id"] for product in products(running, sandbox=True))


def test_nobody_can_sign_in_as_a_sample_user(installation: Installation) -> None:
    done = installation.run("sandbox", "reset")

    assert done.stdout == (
        "The sandbox holds 12 sample users and 60 sample products."
        " 1 mirror of a live account stayed.\n"
    )
    file = installation.data / "sandbox.db"
    assert in_database(file, "SELECT count(*) FROM users WHERE password_hash IS NOT NULL") == 0
    assert in_database(file, "SELECT count(*) FROM users") == 13


def test_a_sample_user_gives_way_to_a_mirror_with_the_same_email(
    installation: Installation,
) -> None:
    email = read(SampleUser, "users")[0].email
    installation.told("users", "create", "--email", email, "--name", "The Real One")
    installation.told("keys", "create", "--owner", email, "--type", "test", "--name", "T")

    assert installation.told("sandbox", "reset") == {"users": 11, "products": 60, "mirrors": 2}

    names = "SELECT name FROM users WHERE email = ?"
    assert in_database(installation.data / "sandbox.db", names, email) == "The Real One"


def test_the_samples_keep_the_rules_and_show_what_there_is() -> None:
    file = files("portico.features.people") / "samples" / "products.ndjson"
    rows = list(read_products(io.BytesIO(file.read_bytes()), "ndjson"))
    people = read(SampleUser, "users")

    assert [row.faults for row in rows] == [[]] * 60
    assert {row.values["status"] for row in rows} == {"active", "archived", "draft"}
    assert len({row.values["category"] for row in rows}) >= 8
    assert len({row.values["currency"] for row in rows}) >= 4
    assert {bool(row.values["stock_quantity"]) for row in rows} == {True, False}
    assert {person.role for person in people} == {"admin", "editor", "viewer"}
    for person in people:
        values = {"name": person.name, "email": person.email, "role": person.role}
        preferences = {"theme": person.theme, "language": person.language}
        picture = {"avatar_url": person.avatar_url, "preferences": preferences}
        faults = Faults()
        read_object(ChangeUser, {**values, **picture}, "", faults)
        faults.check()
