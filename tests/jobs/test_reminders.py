"""Whoever has an API key that ends within seven days is told so by mail, once."""

import asyncio

import pytest

from driving import Api
from mail.conftest import Post, link
from portico.core.audit import OPERATOR
from portico.core.times import DAY
from portico.features.access.api_keys import remind, renew_key, revoke_key
from portico.features.people.accounts import give_key


async def at_once(_seconds: float) -> None:
    """Lets no time pass."""


@pytest.mark.one_engine
async def test_an_owner_is_told_seven_days_ahead_and_once(api: Api, post: Post) -> None:
    end = api.clock() + 30 * DAY
    caller = await api.caller("viewer", expires_at=end)
    api.clock.advance(days=23, milliseconds=-1)
    await remind(api.live, at_once)
    assert await post.new() == []
    api.clock.advance(milliseconds=1)
    await remind(api.live, at_once)
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
    await remind(api.live, at_once)
    assert await post.new() == []


@pytest.mark.one_engine
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
    await remind(api.live, at_once)
    assert len(await post.new()) == 1  # of the successor
    await api.caller("viewer", expires_at=api.clock() + 7 * DAY)
    await remind(api.live, at_once)
    assert await post.new() == []


async def test_of_several_processes_one_reminds_of_each_key(
    api: Api, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.features.access.api_keys.BATCH", 4)
    user, end = await api.account(), api.clock() + 30 * DAY
    for number in range(9):
        await give_key(
            *(api.live, user), name=f"key {number}", key_type="live", expires_at=end, by=OPERATOR,
            mail_owner=False,
        )  # fmt: skip
    api.clock.advance(days=24)
    await asyncio.gather(*(remind(api.live, at_once) for _ in range(3)))
    assert len(await post.new()) == 9


@pytest.mark.one_engine
async def test_a_switch_of_the_profile_keeps_them_away_and_mirrors_get_theirs(
    api: Api, post: Post
) -> None:
    end = api.clock() + 30 * DAY
    await api.caller("viewer", expires_at=end, muted="expiring-keys")
    other = await api.caller("viewer", "test", expires_at=end)
    api.clock.advance(days=24)
    for env in (api.live, api.sandbox):
        await remind(env, at_once)
    (message,) = await post.new()
    assert message["To"] == other.user.email
    assert link(message) == "https://localhost:8443/dashboard/sandbox/keys"
