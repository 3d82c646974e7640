"""The Python client's calls of a kind."""

from decimal import Decimal

from driving import Api, InProcess
from portico_client import AsyncClient, PreconditionFailed


async def test_the_client_calls_a_kind(api: Api) -> None:
    caller = await api.caller()
    key = caller.headers["authorization"].removeprefix("Bearer ")
    base = api.live.addresses.base
    async with AsyncClient(key, base_url=base, transport=InProcess(api)) as client:
        things = client.kind("things")
        made = await things.create(name="one", price=Decimal("1.5"))
        assert (made["id"], made["price"]) == (1, Decimal("1.5"))
        changed = await things.update(1, if_match=made.etag, name="two")
        assert changed["name"] == "two"
        try:
            await things.update(1, if_match=made.etag, name="three")
        except PreconditionFailed:
            pass
        else:
            raise AssertionError("it has changed meanwhile")
        assert [one["name"] async for one in things.list(search="tw")] == ["two"]
        await things.delete(1)
        assert (await things.list().page(1)).items == ()
