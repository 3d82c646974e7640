"""Whoever has an API key that ends within seven days is told so by mail, once."""

import asyncio
import re

import pytest

from driving import Api
from mail.conftest import Post, link, post
from portico.core.audit import OPERATOR
from portico.core.times import DAY
from portico.core.users import User
from portico.features.access.api_keys import BATCH, Remind, renew_key, revoke_key
from portico.features.access.storage import _ENDING, ApiKeys
from portico.features.mail.storage import Mails
from portico.features.people.accounts import give_key
from portico.outbound.mail import Letter, Undelivered

__all__ = ["post"]


async def at_once(_seconds: float) -> None:
    """Lets no time pass."""


def remind(api: Api) -> Remind:
    return Remind(api.live, at_once)


async def keys_of(api: Api, user: User, count: int) -> None:
    """So many keys, which end in thirty days."""
    for number in range(count):
        await give_key(
            api.live,
            user,
            name=f"key {number}",
            key_type="live",
            expires_at=api.clock() + 30 * DAY,
            by=OPERATOR,
            told=False,
        )


async def test_an_owner_is_told_seven_days_ahead_and_once(api: Api, post: Post) -> None:
    end = api.clock() + 30 * DAY
    caller = await api.caller("viewer", expires_at=end)
    api.clock.advance(days=23, milliseconds=-1)
    await remind(api).run()
    assert await post.new() == []
    api.clock.advance(milliseconds=1)
    await remind(api).run()
    (message,) = await post.new()
    assert (message["To"], message["Subject"]) == (
        caller.user.email,
        "An API key of your Portico account expires soon",
    )
    body = message.get_body(["plain"])
    assert body is not None
    assert f"A key ({caller.record.hint}) expires on 2026-04-14 at 12:00 UTC" in body.get_content()
    assert caller.key not in message.as_string()
    assert link(message) == "https://localhost:8443/dashboard/keys"
    api.clock.advance(days=1)
    await remind(api).run()
    assert await post.new() == []


async def test_nothing_is_told_of_what_ends_anyway_or_did_not_hold_longer(
    api: Api, post: Post
) -> None:
    end = api.clock() + 30 * DAY
    keys = [(await api.caller("viewer", expires_at=end)).record for _ in range(2)]
    await revoke_key(api.live, keys[0].id, OPERATOR)
    await renew_key(api.live, keys[1].id, OPERATOR)
    await api.caller("viewer")
    await post.new()
    api.clock.advance(days=24)
    await remind(api).run()
    assert len(await post.new()) == 1  # of the successor
    await api.caller("viewer", expires_at=api.clock() + 7 * DAY)
    await remind(api).run()
    assert await post.new() == []


async def test_nothing_is_told_of_what_has_ended(api: Api, post: Post) -> None:
    await api.caller("viewer", expires_at=api.clock() + 30 * DAY)
    api.clock.advance(days=30)
    await remind(api).run()
    assert await post.new() == []


async def test_of_several_processes_one_reminds_of_each_key(api: Api, post: Post) -> None:
    await keys_of(api, await api.account(), BATCH + 5)
    api.clock.advance(days=24)
    await asyncio.gather(*(remind(api).run() for _ in range(3)))
    assert len(await post.new()) == BATCH + 5


async def test_a_key_that_one_process_reminds_of_no_other_waits_for(api: Api, post: Post) -> None:
    if api.live.db.engine == "sqlite":
        pytest.skip("on SQLite nobody holds a row")
    await keys_of(api, await api.account(), 1)
    api.clock.advance(days=24)
    async with api.live.db.transaction() as tx:
        assert len(await api.live[ApiKeys].remind(tx, api.clock(), 1)) == 1
        await remind(api).run()
    assert await post.new() == []


class Away:
    """A mail server that takes nothing for now."""

    async def send(self, _letter: Letter) -> None:
        raise Undelivered("it is away", lasting=False)


async def test_where_some_mails_wait_the_other_keys_do_too_and_none_is_lost(
    api: Api, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.features.access.api_keys.MOST_WAITING", BATCH)
    outlet, api.live.outlet = api.live.outlet, Away()
    user = await api.account()
    await keys_of(api, user, BATCH + 5)
    api.clock.advance(days=24)
    for _ in range(2):
        await remind(api).run()
        assert await api.live[Mails].count(api.live.db) == BATCH
    api.live.outlet = outlet
    api.clock.advance(seconds=120)
    assert len(await post.new()) == BATCH
    await remind(api).run()
    assert len(await post.new()) == 5


async def test_a_switch_of_the_profile_keeps_them_away_and_mirrors_get_theirs(
    api: Api, post: Post
) -> None:
    end = api.clock() + 30 * DAY
    await api.caller("viewer", expires_at=end, muted="expiring-keys")
    other = await api.caller("viewer", "test", expires_at=end)
    api.clock.advance(days=24)
    for env in (api.live, api.sandbox):
        await Remind(env, at_once).run()
    (message,) = await post.new()
    assert message["To"] == other.user.email
    assert link(message) == "https://localhost:8443/dashboard/sandbox/keys"


async def test_a_look_for_what_is_due_reads_its_index_alone(api: Api) -> None:
    db = api.live.db
    look = re.sub(r":\w+", "1", _ENDING)
    async with db.transaction() as tx:
        if db.engine == "sqlite":
            plan = str(await tx.all(f"EXPLAIN QUERY PLAN {look}"))
            assert "USING INDEX api_keys_to_remind (expires_at>? AND expires_at<?)" in plan
        else:
            await tx.run("SET LOCAL enable_seqscan = off")  # which a small table is cheaper by
            assert "Index Scan using api_keys_to_remind" in str(await tx.all(f"EXPLAIN {look}"))
