"""Own writes in the sandbox, by the dashboard and by a key, while a standby answers lists."""

from pathlib import Path

import pytest

from driving import Api, settings_for
from operating import eventually
from pages.visiting import held, signed_in
from portico.features.people.storage import Users
from reliability.test_replicas import patient, paused, primary, replica
from servers import PostgresServer

__all__ = ["patient", "primary", "replica"]

pytestmark = pytest.mark.xdist_group("replicas")

LAMP = {"category": "mine", "price": 1, "status": "draft"}


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("read_by", ["key", "page"])
@pytest.mark.parametrize("written_by", ["key", "page"])
async def test_an_account_sees_its_own_writes_by_its_pages_and_its_key(
    primary: PostgresServer, replica: PostgresServer, tmp_path: Path, written_by: str, read_by: str
) -> None:
    url = primary.fresh_database()
    read_url = url.replace(f":{primary.port}/", f":{replica.port}/")
    variables = {"PORTICO_DATABASE_URL": url, "PORTICO_DATABASE_READ_URL": read_url}
    async with Api(settings_for(tmp_path, variables)) as api:
        await api.account()
        user, visitor = await signed_in(api, "editor")
        key = await api.caller(key_type="test", user=user)
        mirror = await api.sandbox[Users].by_account(user.id)
        assert mirror is not None
        assert mirror.id != user.id
        form = {
            "name": "Lamp",
            "category": "mine",
            "price": "1",
            "currency": "USD",
            "status": "draft",
        }
        page = await visitor.get("/sandbox/products/new")
        await eventually(
            lambda: "ok" in {one.word for one in api.sandbox.db.replicas().values()}, "the standby"
        )
        async with paused(replica):
            if written_by == "key":
                assert (
                    await key.post("/products", json=LAMP | {"name": "Lamp"})
                ).status_code == 201
            else:
                fields = {"stock_quantity": "0", "description": "", "once": held(page, "once")}
                made = await visitor.post("/sandbox/products/new", **form, **fields)
                assert made.status_code == 303
            where = "/products?category=mine&status=draft"
            if read_by == "key":
                assert len((await key.get(where)).json()["data"]) == 1
            else:
                assert "Lamp" in (await visitor.get(f"/sandbox{where}")).text
