"""API keys by the client: made, looked at, and ended."""

from datetime import UTC, datetime, timedelta

import pytest

from oauth.authority import Authority
from portico_client import (
    AsyncClient,
    AuthenticationRequired,
    Client,
    NotFound,
    PermissionDenied,
    ValidationError,
)


def test_a_narrow_key_is_made_used_listed_and_revoked(
    served: Authority, ca: str, client: Client
) -> None:
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    made = client.api_keys.create(
        name="Till",
        type="live",
        scopes=["read:products"],
        networks=["127.0.0.0/8"],
        expires_at=end,
    )
    assert made.key not in repr(made)
    assert (made.scopes, made.networks) == (("read:products",), ("127.0.0.0/8",))
    assert (made.expires_at, made.status) == (end, "active")
    with Client(made.key, base_url=served.api, ca=ca) as narrow:
        assert narrow.products.list(limit=1).page(1) is not None
        for beyond in (narrow.users.list(), narrow.api_keys.list()):
            with pytest.raises(PermissionDenied):
                beyond.page(1)
        read = client.api_keys.get(made.id)
        assert made.key.endswith(read.hint[-4:])
        assert [one.id for one in client.api_keys.list()][:1] == [made.id], "the newest first"
        client.api_keys.revoke(made.id)
        assert client.api_keys.get(made.id).status == "revoked"
        with pytest.raises(AuthenticationRequired):
            narrow.products.list(limit=1).page(1)
    with pytest.raises(NotFound):
        client.api_keys.revoke(2**40)
    with pytest.raises(ValidationError) as faulty:
        client.api_keys.create(
            name="Till", type="live", networks=["10.0.0.1/8"], expires_at=end - timedelta(days=9)
        )
    assert {fault.field for fault in faulty.value.details} == {"networks.0", "expires_at"}


async def test_the_asynchronous_face_makes_and_revokes_keys(
    served: Authority, async_client: AsyncClient
) -> None:
    person = served.person("viewer")
    made = await async_client.api_keys.create(name="Theirs", type="read", user_id=person.id)
    listed = [one async for one in async_client.api_keys.list(user_id=person.id)]
    assert [one.id for one in listed] == [made.id]
    assert await async_client.api_keys.get(made.id) == listed[0]
    await async_client.api_keys.revoke(made.id)
    assert (await async_client.api_keys.get(made.id)).status == "revoked"
