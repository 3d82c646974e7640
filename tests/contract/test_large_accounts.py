"""Accounts may have very much: whoever removes one holds up nobody."""

from driving import Api
from operating import turns
from signing_in import login_of

_TOKEN = """
INSERT INTO tokens (grant_id, refresh_hash, access_hash, scopes, created_at, access_expires_at,
    refresh_expires_at)
VALUES (:grant_id, :refresh, :access, '', 1, 1, 1)"""
_COUNT = "SELECT count(*) FROM tokens"


async def test_requests_have_their_turn_while_a_user_with_many_tokens_is_removed(api: Api) -> None:
    user, other = await api.account(), await api.account()
    for owner in (user, other):
        await login_of(api.live, owner)
    (grant,) = await api.live.grants.of_user(user.id, api.clock())
    tokens = [
        {"grant_id": grant.id, "refresh": b"r%d" % number, "access": b"a%d" % number}
        for number in range(5_000)
    ]
    async with api.live.db.transaction() as tx:
        await tx.run_many(_TOKEN, tokens)
    async with api.live.db.transaction() as tx, turns() as seen:
        await api.live.users.delete(tx, user.id)
    assert seen.count > 2
    assert await api.live.users.get(user.id) is None
    assert await api.live.db.one(_COUNT) == (1,)
