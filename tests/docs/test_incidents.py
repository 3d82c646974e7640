"""What operators are told to do about a secret that is lost does what they are told."""

import json
from pathlib import Path

from operating import Installation
from servers import PostgresServer

OLD, NEW = "ab" * 32, "cd" * 32


def test_an_installation_on_postgresql_gets_another_secret(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    url = postgres.fresh_database()
    before = Installation(tmp_path).having(database_url=url, secret_key=OLD)
    facts = before.told("init")
    webhook = before.told(
        "webhooks", "create", "--url", "https://hooks.example.com/in", "--types", "*"
    )
    after = before.having(secret_key=NEW)
    code, line = after.refused("serve")
    assert (code, "another secret" in line) == (1, True)

    after.told("secret", "reset")

    with after.serving() as service:
        assert service.ask("/v1/users/me", key=facts["keys"]["live"]).status == 200
    for environment in ((), ("--sandbox",)):
        former, key = after.told("signing-keys", "list", *environment)
        assert (former["retires_at"] is None, key["retires_at"]) == (False, None)
    code, line = before.refused("serve")
    assert (code, "another secret" in line) == (1, True)

    def problems() -> set[str]:
        findings = json.loads(after.run("doctor", "--json").stdout)["findings"]
        return {one["check"] for one in findings if not one["ok"]}

    assert problems() == {"live secrets"}
    after.told("webhooks", "rotate-secret", str(webhook["id"]))
    assert problems() == set()
