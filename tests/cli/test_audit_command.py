"""`portico audit`."""

import re

from beside import Running

ADMIN = "admin@example.com"
LAMP = {"name": "Lamp", "category": "light", "price": 1}


def test_what_a_server_did_is_told_with_who_asked_for_it(on_each: Running) -> None:
    answer = on_each.service.post("/v1/products", LAMP)

    (entry,) = on_each.installation.told("audit", "--limit", "1")

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry.pop("at"))
    assert isinstance(entry.pop("id"), int)
    assert entry == {
        "action": "product.created",
        "user": {"id": on_each.installation.facts["admin"]["id"], "email": ADMIN},
        "credential": "api_key",
        "credential_id": 1,
        "client": None,
        "address": "127.0.0.1",
        "target": "product",
        "target_id": str(answer.json["data"]["id"]),
        "details": {"name": "Lamp"},
        "request_id": answer.headers["x-request-id"],
    }


def test_entries_are_chosen_by_action_user_and_age(running: Running) -> None:
    installation = running.installation
    for _ in range(3):
        running.service.make_product()
    installation.told("users", "create", "--email", "quiet@example.com", "--name", "Quiet")

    products = installation.told("audit", "--action", "product.created", "--limit", "2")
    older = installation.told("audit", "--before", str(products[1]["id"]), "--limit", "1")

    assert {entry["action"] for entry in products} == {"product.created"}
    assert len(products) == 2
    assert older[0]["id"] < products[1]["id"] < products[0]["id"]
    of_admin = installation.told("audit", "--user", ADMIN.upper())
    admin_id = installation.facts["admin"]["id"]
    for entry in of_admin:
        did = entry["user"] is not None and entry["user"]["email"] == ADMIN
        assert did != ((entry["target"], entry["target_id"]) == ("user", str(admin_id)))
    assert "user.created" in {entry["action"] for entry in of_admin}
    (made,) = installation.told("audit", "--user", "quiet@example.com")
    assert (made["action"], made["user"]) == ("user.created", None)
    assert len(installation.told("audit", "--limit", "1000")) > len(of_admin)
