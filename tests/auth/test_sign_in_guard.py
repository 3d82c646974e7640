"""Guessing passwords: one answer, one cost, and delays that keep no owner out (decisions §5)."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from hashlib import sha256
from typing import Any, TypeVar

import httpx
import pytest

from driving import BASE, Api, refused
from operating import eventually
from portico.core.errors import RateLimited
from portico.core.users import PASSWORD_LENGTH, User
from portico.features.events.audit import Audit
from portico.features.people.guard import Claim, password_is_right
from portico.features.people.passwords import QUEUE, Passwords
from portico.features.signin.service import WRONG
from portico.features.signin.storage import Sessions
from portico.limits.guard import ACCOUNT, ACQUAINTANCE, ADDRESS
from portico.limits.protocol import GUARDED_ACCOUNT
from signing_in import AUTH, PASSWORD, Visitor, counted

pytestmark = pytest.mark.one_engine

LOGIN = f"{AUTH['live']}/login"
WAYS = [LOGIN, f"{BASE['live']}/sessions"]
PARAMETERS = "$argon2id$v=19$m=16,t=1,p=1"

T = TypeVar("T")


class Hashes(Passwords):
    """The real thing with parameters of its own, which counts."""

    def __init__(self) -> None:
        super().__init__(memory_kib=16, iterations=1)
        self.verified: list[str] = []
        self.longest = 0
        self.hold = asyncio.Event()
        self.hold.set()

    async def verify(self, password: str, password_hash: str) -> bool:
        """As it is, and noted with the hash's parameters."""
        right = await super().verify(password, password_hash)
        self.longest = max(self.longest, len(password))
        self.verified.append(password_hash.rpartition("$")[0].rpartition("$")[0])
        return right

    async def _run(self, work: Callable[[], T]) -> T:
        await self.hold.wait()
        return await super()._run(work)


@pytest.fixture
async def hashes(api: Api) -> AsyncIterator[Hashes]:
    """Puts a counting one in the place of the application's."""
    counting = Hashes()
    for env in api.portico.environments:
        env[Passwords] = counting
    yield counting
    counting.hold.set()
    await counting.close()


def at(api: Api, number: int) -> Visitor:
    """A visitor at an address of their own."""
    return Visitor(api, f"198.51.{number >> 8}.{number & 255}")


async def guess(
    visitor: Visitor, email: str, password: str = WRONG, url: str = LOGIN
) -> httpx.Response:
    """The answer to one attempt."""
    return await visitor.send("POST", url, {"email": email, "password": password})


async def fail_at(api: Api, email: str, count: int = ACCOUNT.free) -> None:
    """Guesses so often at one account, each time from another address."""
    for number in range(count):
        refused(await guess(at(api, 1_000 + number), email), 401)


async def spend(visitor: Visitor) -> None:
    """Guesses at other accounts until the visitor's address has no failures left."""
    for number in range(ADDRESS.free):
        refused(await guess(visitor, f"person{number}@example.org"), 401)


async def at_home(api: Api, user: User, number: int = 1) -> Visitor:
    """The user's browser, at an address that the account knows."""
    home = at(api, number)
    assert (await guess(home, user.email, PASSWORD)).status_code == 200
    api.clock.advance(seconds=60)
    return home


def waits(answer: httpx.Response, seconds: int) -> None:
    """Asserts that a response is 429 and allows another attempt after so many seconds."""
    refused(answer, 429, "RATE_LIMITED")
    assert answer.headers["retry-after"] == str(seconds)


async def unnoted() -> None:
    """Leaves a failure out of the audit log."""


def visible(answer: httpx.Response) -> dict[str, Any]:
    """All that a caller sees, but for what differs anyway."""
    skip = ("x-request-id", "x-ratelimit-remaining")
    headers = {name: value for name, value in answer.headers.items() if name not in skip}
    return {"status": answer.status_code, "headers": headers, "body": answer.text}


@pytest.mark.parametrize("url", WAYS)
async def test_failed_sign_ins_get_one_answer_at_one_cost(
    api: Api, hashes: Hashes, url: str
) -> None:
    ada = await api.account(password=PASSWORD)
    without = await api.account()
    attempts = [
        (ada.email, "wrong"),
        (ada.email, ""),
        (ada.email, PASSWORD.lower()),
        (ada.email, PASSWORD + "x" * 8_000),
        (without.email, PASSWORD),
        ("nobody@example.com", PASSWORD),
        ("", ""),
        ("x" * 8_000, PASSWORD),
    ]
    answers = []
    for number, (email, password) in enumerate(attempts):
        hashes.verified.clear()
        answers.append(visible(await guess(at(api, number), email, password, url)))
        assert hashes.verified == [PARAMETERS], email[:20]
    assert hashes.longest <= PASSWORD_LENGTH[1]  # a longer one would cost more
    assert all(answer == answers[0] for answer in answers)
    assert answers[0]["status"] == 401
    assert WRONG in answers[0]["body"]


async def test_refused_sign_in_stores_neither_password_nor_unknown_email(api: Api) -> None:
    ada = await api.account(password=PASSWORD)
    await guess(at(api, 1), ada.email, "Secret typed wrong 1")
    typed = "secret typed in the wrong field 1"
    await guess(at(api, 2), typed.upper())
    known, unknown = reversed(await api.live[Audit].page(limit=2))
    assert (known.action, known.target_id) == ("sign_in.refused", str(ada.id))
    assert (unknown.action, unknown.target_id, unknown.email) == ("sign_in.refused", None, None)
    assert unknown.address == "198.51.0.2"
    assert "secret typed" not in repr(await api.state()).lower()
    for name in await counted(api, GUARDED_ACCOUNT):
        assert sha256(typed.encode()).hexdigest()[:32] not in name


@pytest.mark.parametrize("exists", [True, False])
async def test_account_has_ten_failures_and_then_growing_waits(
    api: Api, hashes: Hashes, *, exists: bool
) -> None:
    ada, other = [await api.account(password=PASSWORD) for _ in range(2)]
    email = ada.email if exists else "nobody@example.com"
    await fail_at(api, email)
    numbers = itertools.count(1)
    for minutes in (1, 2, 4, 8, 15, 15):
        hashes.verified.clear()
        for password in ("wrong", PASSWORD):
            waits(await guess(at(api, next(numbers)), email, password), 60 * minutes)
        assert hashes.verified == []
        api.clock.advance(milliseconds=60_000 * minutes - 1)
        waits(await guess(at(api, next(numbers)), email, PASSWORD), 1)
        api.clock.advance(milliseconds=1)
        refused(await guess(at(api, next(numbers)), email), 401)
    assert (await guess(at(api, next(numbers)), other.email, PASSWORD)).is_success
    api.clock.advance(seconds=15 * 60)
    assert (await guess(at(api, next(numbers)), email, PASSWORD)).is_success == exists


async def test_right_passwords_are_not_counted(api: Api) -> None:
    ada = await api.account(password=PASSWORD)
    await fail_at(api, ada.email, ACCOUNT.free - 1)
    guesses = (guess(at(api, 100 + number), ada.email, PASSWORD) for number in range(12))
    assert all(answer.is_success for answer in await asyncio.gather(*guesses))
    home = at(api, 100)
    for _ in range(2 * ACQUAINTANCE.free):
        assert (await guess(home, ada.email, PASSWORD)).is_success
    refused(await guess(at(api, 500), ada.email), 401)
    refused(await guess(at(api, 501), ada.email, PASSWORD), 429)


async def test_concurrent_guesses_are_no_more_than_successive_ones(
    api: Api, hashes: Hashes, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.leave_turns(monkeypatch)
    ada = await api.account(password=PASSWORD)
    answers = await asyncio.gather(*(guess(at(api, number), ada.email) for number in range(40)))
    statuses = [answer.status_code for answer in answers]
    assert (statuses.count(401), statuses.count(429)) == (ACCOUNT.free, 40 - ACCOUNT.free)
    assert len(hashes.verified) == ACCOUNT.free


async def test_cancelled_guess_is_not_counted(api: Api, hashes: Hashes) -> None:
    ada = await api.account(password=PASSWORD)
    claim = Claim(ada.email, ada.id, "198.51.0.1")

    def guess_at(password: str) -> Coroutine[Any, Any, bool]:
        return password_is_right(api.live, claim, password, ada.password_hash or "", unnoted)

    hashes.hold.clear()
    for _ in range(3 * ACCOUNT.free):
        checking = asyncio.create_task(guess_at("wrong"))
        await eventually(lambda: hashes.waiting, "the hash")
        checking.cancel()
        await asyncio.gather(checking, return_exceptions=True)
    hashes.hold.set()
    assert await guess_at(PASSWORD)
    for _ in range(ACCOUNT.free):
        assert not await guess_at("wrong")
    with pytest.raises(RateLimited) as refusal:
        await guess_at(PASSWORD)
    assert refusal.value.retry_after == 60


async def test_entrances_and_spellings_of_an_email_share_one_count(api: Api) -> None:
    ada = await api.account(password=PASSWORD, email="zoë@münchen.de")
    spellings = [ada.email, ada.email.upper(), "zoe\u0308@münchen.de", " zoë@xn--mnchen-3ya.de"]
    for number in range(ACCOUNT.free):
        email = spellings[number % len(spellings)]
        refused(await guess(at(api, number), email, url=WAYS[number % 2]), 401)
    for url in WAYS:
        waits(await guess(at(api, 100), ada.email, PASSWORD, url), 60)


async def test_address_has_thirty_failures_at_all_accounts_together(
    api: Api, hashes: Hashes
) -> None:
    ada = await api.account(password=PASSWORD)
    guesser = at(api, 1)
    await spend(guesser)
    hashes.verified.clear()
    api.clock.advance(seconds=100)
    for url in WAYS:
        waits(await guess(guesser, ada.email, PASSWORD, url), 800)
    assert hashes.verified == []
    assert (await guess(at(api, 2), ada.email, PASSWORD)).is_success
    api.clock.advance(seconds=800)
    assert (await guess(guesser, ada.email, PASSWORD)).is_success


async def test_owner_at_a_known_address_signs_in_while_strangers_must_wait(api: Api) -> None:
    ada, bob = [await api.account(password=PASSWORD) for _ in range(2)]
    home = await at_home(api, ada)
    for email in (ada.email, bob.email):
        await fail_at(api, email)
    refused(await guess(at(api, 200), ada.email, PASSWORD), 429)
    refused(await guess(home, bob.email, PASSWORD), 429)
    assert not await api.live[Sessions].knows_address(bob.id, "198.51.0.1")
    for url in WAYS:
        assert (await guess(home, ada.email, PASSWORD, url)).is_success
    api.clock.advance(seconds=60)
    await spend(home)
    api.clock.advance(seconds=60)
    refused(await guess(home, "other@example.org"), 429)
    for url in WAYS:
        assert (await guess(home, ada.email, PASSWORD, url)).is_success


async def test_spent_address_reveals_no_account_that_knows_it(api: Api) -> None:
    ada = await api.account(password=PASSWORD)
    home = await at_home(api, ada)
    await spend(home)
    api.clock.advance(seconds=100)
    unknown = await guess(home, "other@example.org")
    waits(unknown, 800)
    for _ in range(ACQUAINTANCE.free + 2):
        assert visible(await guess(home, ada.email)) == visible(unknown)
    entries = await api.live[Audit].page(limit=100)
    noted = [entry for entry in entries if entry.target_id == str(ada.id)]
    assert [entry.action for entry in noted].count("sign_in.refused") == ACQUAINTANCE.free


async def test_guesses_at_accounts_that_know_an_address_count_for_the_address(api: Api) -> None:
    home = "198.51.0.1"
    users = [await api.account(password=PASSWORD) for _ in range(ADDRESS.free + 5)]
    async with api.live.db.transaction() as tx:
        for user in users:
            await api.live[Sessions].know_address(tx, user.id, home, api.clock())

    async def try_at_all(password: str) -> list[bool | BaseException]:
        return await asyncio.gather(
            *(
                password_is_right(
                    api.live,
                    Claim(user.email, user.id, home),
                    password,
                    user.password_hash or "",
                    unnoted,
                )
                for user in users
            ),
            return_exceptions=True,
        )

    found = await try_at_all("wrong")
    assert found.count(False) == ADDRESS.free
    assert {type(each) for each in found} == {bool, RateLimited}
    assert await try_at_all(PASSWORD) == [True] * len(users)


async def test_sign_in_beyond_a_full_queue_of_hashes_is_503_alone(api: Api, hashes: Hashes) -> None:
    caller = await api.caller("viewer")
    hashes.hold.clear()
    waiting = [
        asyncio.create_task(guess(at(api, number), f"person{number}@example.org"))
        for number in range(QUEUE)
    ]
    await eventually(lambda: hashes.waiting == QUEUE, "the last hash")
    answer = await guess(at(api, 500), "one.more@example.org")
    refused(answer, 503, "SERVICE_UNAVAILABLE")
    assert answer.headers["retry-after"] == "2"
    assert (await caller.get("/users/me")).status_code == 200
    hashes.hold.set()
    assert {(await task).status_code for task in waiting} == {401}
    refused(await guess(at(api, 501), "one.more@example.org"), 401)


async def test_ipv6_network_of_64_bits_counts_as_one_address(api: Api) -> None:
    ada = await api.account(password=PASSWORD)
    assert (await Visitor(api, "[2001:db8:1:5::1]").log_in(ada.email)).status_code == 200
    for number in range(ADDRESS.free):
        visitor = Visitor(api, f"[2001:db8::{number:x}]")
        refused(await guess(visitor, f"person{number}@example.org"), 401)
    api.clock.advance(seconds=60)
    refused(await guess(Visitor(api, "[2001:db8::ffff]"), "other@example.org"), 429)
    refused(await guess(Visitor(api, "[2001:db8:0:1::1]"), "other@example.org"), 401)
    await fail_at(api, ada.email)
    refused(await guess(Visitor(api, "[2001:db8:1:6::1]"), ada.email, PASSWORD), 429)
    assert (await Visitor(api, "[2001:db8:1:5::2]").log_in(ada.email)).status_code == 200
