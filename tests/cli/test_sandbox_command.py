"""`portico sandbox reset`."""

from typing import Any

from beside import Running
from operating import Installation, in_database

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


def test_a_reset_replaces_all_but_mirrors_their_keys_and_oauth_clients(on_each: Running) -> None:
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
    words = ["clients", "create", "--name", "Shop", "--scope", "read:users", "--sandbox"]
    installation.told(*words, "--redirect-uri", "https://shop.example/callback")
    clients = all_of(on_each, "/clients?", sandbox=True)
    assert clients
    assert on_each.total("search=zyzzyva", sandbox=True) >= 3
    live_users = all_of(on_each, "/users?", sandbox=False)
    live_products = products(on_each, sandbox=False)
    me = on_each.get_sandbox("/users/me").json["data"]

    told = installation.told("sandbox", "reset")

    assert told.keys() == {"users", "products", "mirrors"}
    assert on_each.get_sandbox("/users/me").json["data"] == me
    assert all_of(on_each, "/clients?", sandbox=True) == clients
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


def test_nobody_can_sign_in_as_a_sample_user(installation: Installation) -> None:
    done = installation.run("sandbox", "reset")

    assert done.stdout == (
        "The sandbox holds 12 sample users and 60 sample products."
        " 1 mirror of a live account stayed.\n"
    )
    file = installation.data / "sandbox.db"
    assert in_database(file, "SELECT count(*) FROM users WHERE password_hash IS NOT NULL") == 0
    assert in_database(file, "SELECT count(*) FROM users") == 13
