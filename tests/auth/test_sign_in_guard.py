"""Guessing passwords: one answer, one cost, and delays that keep no owner out (decisions §5)."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from driving import BASE, Api, refused
from operating import eventually
from portico.app import Portico
from portico.domain.errors import RateLimited
from portico.domain.guard import ACCOUNT, ACQUAINTANCE, ADDRESS
from portico.domain.users import PASSWORD_LENGTH, User
from portico.services.guard import Claim, forgive, password_is_right
from portico.services.passwords import ITERATIONS, LANES, MEMORY_KIB, QUEUE, Passwords
from portico.services.sign_in import WRONG
from portico.settings import load
from portico.state.callers import GUARDED_ACCOUNT
from signing_in import AUTH, PASSWORD, Visitor, counted

WAYS = pytest.mark.parametrize("url", [f"{AUTH['live']}/login", f"{BASE['live']}/sessions"])


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
        env.passwords = counting
    yield counting
    counting.hold.set()
    await counting.close()


def at(api: Api, number: int) -> Visitor:
    """A visitor at an address of their own."""
    return Visitor(api, f"198.51.{number >> 8}.{number & 255}")


async def guess(visitor: Visitor, url: str, email: str, password: str = WRONG) -> httpx.Response:
    return await visitor.send("POST", url, {"email": email, "password": password})


def signed_in(answer: httpx.Response, url: str) -> None:
    """Sees that the password was taken."""
    assert answer.status_code == (201 if url.endswith("/sessions") else 200)


async def unnoted() -> None:
    """Leaves a failure out of the audit log."""


def told(answer: httpx.Response) -> dict[str, Any]:
    """All that an answer tells, but for what is never alike."""
    skip = ("x-request-id", "x-ratelimit-remaining")
    headers = {name: value for name, value in answer.headers.items() if name not in skip}
    return {"status": answer.status_code, "headers": headers, "body": answer.text}


@WAYS
async def test_whatever_is_wrong_gets_one_answer_at_one_cost(
    api: Api, hashes: Hashes, url: str
) -> None:
    ada = await api.account(password=PASSWORD)
    without = await api.account()
    attempts = [
        (ada.email, "wrong"),
        (ada.email, ""),
        (ada.email, PASSWORD.lower()),
        (ada.email, PASSWORD + " "),
        (ada.email, "x" * 129),
        (ada.email, PASSWORD + "x" * 8_000),
        (without.email, ""),
        (without.email, PASSWORD),
        ("nobody@example.com", PASSWORD),
        ("", ""),
        ("no e-mail at all", PASSWORD),
        ("x" * 8_000, PASSWORD),
    ]
    answers = []
    for number, (email, password) in enumerate(attempts):
        hashes.verified.clear()
        answers.append(told(await guess(at(api, number), url, email, password)))
        assert hashes.verified == [PARAMETERS], email[:20]
    assert hashes.longest <= PASSWORD_LENGTH[1]  # a longer one would cost more
    assert all(answer == answers[0] for answer in answers)
    assert answers[0]["status"] == 401
    assert WRONG in answers[0]["body"]


async def test_the_cost_is_that_of_every_hash(tmp_path: Path) -> None:
    serving = Portico(load({"data": str(tmp_path)}, {}, tmp_path))
    made = await serving.live.passwords.hash(PASSWORD)
    await serving.passwords.close()
    for password_hash in (made, serving.live.passwords.dummy_hash):
        assert password_hash.startswith(f"$argon2id$v=19$m={MEMORY_KIB},t={ITERATIONS},p={LANES}$")


async def test_neither_password_nor_unknown_e_mail_is_noted(api: Api) -> None:
    ada = await api.account(password=PASSWORD)
    await guess(at(api, 1), f"{AUTH['live']}/login", ada.email, "Secret typed wrong 1")
    await guess(at(api, 2), f"{AUTH['live']}/login", "Secret typed in the wrong field 1")
    known, unknown = reversed(await api.live.audit.page(limit=2))
    assert (known.action, known.target_id) == ("sign_in.refused", str(ada.id))
    assert (unknown.action, unknown.target_id, unknown.email) == ("sign_in.refused", None, None)
    assert unknown.address == "198.51.0.2"
    assert "Secret typed" not in repr(await api.state())


async def test_counters_do_not_tell_what_was_typed_to_who_has_them(api: Api) -> None:
    typed = "secret typed in the wrong field 1"
    await guess(at(api, 1), f"{AUTH['live']}/login", typed.upper())
    names = await counted(api, GUARDED_ACCOUNT)
    assert not any(sha256(typed.encode()).hexdigest()[:32] in name for name in names)


@WAYS
async def test_an_account_has_ten_failures_and_then_waits_that_grow(
    api: Api, hashes: Hashes, url: str
) -> None:
    ada = await api.account(password=PASSWORD)
    other = await api.account(password=PASSWORD)
    numbers = itertools.count()
    for _ in range(ACCOUNT.free):
        refused(await guess(at(api, next(numbers)), url, ada.email), 401)
    for minutes in (1, 2, 4, 8, 15, 15):
        hashes.verified.clear()
        for password in ("wrong", PASSWORD):
            answer = await guess(at(api, next(numbers)), url, ada.email, password)
            refused(answer, 429, "RATE_LIMITED")
            assert answer.headers["retry-after"] == str(60 * minutes)
        assert hashes.verified == []
        api.clock.advance(milliseconds=60_000 * minutes - 1)
        answer = await guess(at(api, next(numbers)), url, ada.email, PASSWORD)
        refused(answer, 429)
        assert answer.headers["retry-after"] == "1"
        api.clock.advance(milliseconds=1)
        refused(await guess(at(api, next(numbers)), url, ada.email), 401)
    assert (await guess(at(api, next(numbers)), url, other.email, PASSWORD)).is_success
    api.clock.advance(seconds=15 * 60)
    assert (await guess(at(api, next(numbers)), url, ada.email, PASSWORD)).is_success


@WAYS
async def test_right_passwords_count_nowhere(api: Api, url: str) -> None:
    ada = await api.account(password=PASSWORD)
    for number in range(ACCOUNT.free - 1):
        refused(await guess(at(api, number), url, ada.email), 401)
    for number in range(2 * ADDRESS.free):
        assert (await guess(at(api, 100 + number), url, ada.email, PASSWORD)).is_success
    home = at(api, 100)
    for _ in range(2 * ACQUAINTANCE.free):
        assert (await guess(home, url, ada.email, PASSWORD)).is_success
    refused(await guess(at(api, 500), url, ada.email), 401)
    refused(await guess(at(api, 501), url, ada.email, PASSWORD), 429)


@WAYS
async def test_guesses_at_once_are_no_more_than_one_by_one(
    api: Api, hashes: Hashes, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.leave_turns(monkeypatch)
    ada = await api.account(password=PASSWORD)
    answers = await asyncio.gather(
        *(guess(at(api, number), url, ada.email) for number in range(40))
    )
    statuses = [answer.status_code for answer in answers]
    assert (statuses.count(401), statuses.count(429)) == (ACCOUNT.free, 40 - ACCOUNT.free)
    assert len(hashes.verified) == ACCOUNT.free


@WAYS
async def test_right_passwords_at_once_hinder_nobody(api: Api, url: str) -> None:
    ada = await api.account(password=PASSWORD)
    for number in range(ACCOUNT.free - 1):
        refused(await guess(at(api, number), url, ada.email), 401)
    answers = await asyncio.gather(
        *(guess(at(api, 100 + number), url, ada.email, PASSWORD) for number in range(12))
    )
    assert all(answer.is_success for answer in answers)


async def test_a_guess_that_was_never_checked_is_no_failure(api: Api, hashes: Hashes) -> None:
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


async def test_who_shows_that_an_account_is_theirs_is_forgiven(api: Api) -> None:
    url = f"{AUTH['live']}/login"
    ada, bob = await api.account(password=PASSWORD), await api.account(password=PASSWORD)
    for number in range(ACCOUNT.free):
        for email in (ada.email, bob.email):
            refused(await guess(at(api, number), url, email), 401)
    await forgive(api.live, ada.email.upper(), "198.51.0.200")
    refused(await guess(at(api, 100), url, bob.email, PASSWORD), 429)
    assert (await guess(at(api, 100), url, ada.email, PASSWORD)).status_code == 200


async def test_failures_survive_a_restart(api: Api) -> None:
    url = f"{AUTH['live']}/login"
    ada = await api.account(password=PASSWORD)
    for number in range(ACCOUNT.free):
        refused(await guess(at(api, number), url, ada.email), 401)
    await api.stop()
    await api.start()
    answer = await guess(at(api, 100), url, ada.email, PASSWORD)
    refused(answer, 429)
    assert answer.headers["retry-after"] == "60"


async def test_both_ways_to_sign_in_and_every_spelling_share_the_count(api: Api) -> None:
    ada = await api.account(password=PASSWORD, email="zoë@münchen.de")
    ways = [f"{AUTH['live']}/login", f"{BASE['live']}/sessions"]
    spellings = [ada.email, ada.email.upper(), "zoe\u0308@münchen.de", " zoë@xn--mnchen-3ya.de"]
    for number in range(ACCOUNT.free):
        email = spellings[number % len(spellings)]
        refused(await guess(at(api, number), ways[number % 2], email), 401)
    refused(await guess(at(api, 100), ways[0], ada.email, PASSWORD), 429)


async def test_an_account_that_does_not_exist_is_delayed_alike(api: Api) -> None:
    url = f"{AUTH['live']}/login"
    ada = await api.account(password=PASSWORD)
    for email in (ada.email, "nobody@example.com"):
        statuses = [
            (await guess(at(api, number), url, email)).status_code
            for number in range(ACCOUNT.free + 2)
        ]
        assert statuses == [401] * ACCOUNT.free + [429, 429]


@WAYS
async def test_an_address_has_thirty_failures_at_whatever_accounts(
    api: Api, hashes: Hashes, url: str
) -> None:
    ada = await api.account(password=PASSWORD)
    guesser = at(api, 1)
    for number in range(ADDRESS.free):
        refused(await guess(guesser, url, f"person{number}@example.org"), 401)
    hashes.verified.clear()
    api.clock.advance(seconds=100)
    answer = await guess(guesser, url, ada.email, PASSWORD)
    refused(answer, 429, "RATE_LIMITED")
    assert answer.headers["retry-after"] == "800"
    assert hashes.verified == []
    signed_in(await guess(at(api, 2), url, ada.email, PASSWORD), url)
    api.clock.advance(seconds=800)
    signed_in(await guess(guesser, url, ada.email, PASSWORD), url)


async def test_an_ipv6_network_of_64_bits_is_one_address(api: Api) -> None:
    url = f"{AUTH['live']}/login"
    for number in range(ADDRESS.free):
        visitor = Visitor(api, f"[2001:db8::{number:x}]")
        refused(await guess(visitor, url, f"person{number}@example.org"), 401)
    api.clock.advance(seconds=60)
    refused(await guess(Visitor(api, "[2001:db8::ffff]"), url, "other@example.org"), 429)
    refused(await guess(Visitor(api, "[2001:db8:0:1::1]"), url, "other@example.org"), 401)


async def spent_home(api: Api, url: str, user: User) -> Visitor:
    """An address that a user has signed in from, and that guesses at no account any more."""
    home = at(api, 1)
    signed_in(await guess(home, url, user.email, PASSWORD), url)
    api.clock.advance(seconds=60)
    for number in range(ADDRESS.free):
        refused(await guess(home, url, f"person{number}@example.org"), 401)
    return home


@WAYS
async def test_strangers_who_guess_keep_no_owner_out(api: Api, url: str) -> None:
    ada = await api.account(password=PASSWORD)
    home = at(api, 1)
    signed_in(await guess(home, url, ada.email, PASSWORD), url)
    for number in range(ACCOUNT.free + 5):
        await guess(at(api, 100 + number), url, ada.email)
    refused(await guess(at(api, 200), url, ada.email, PASSWORD), 429)
    signed_in(await guess(home, url, ada.email, PASSWORD), url)
    # Nor does an address that guesses at others hinder who has signed in from it before.
    api.clock.advance(seconds=60)
    for number in range(ADDRESS.free):
        refused(await guess(home, url, f"person{number}@example.org"), 401)
    api.clock.advance(seconds=60)
    refused(await guess(home, url, "other@example.org"), 429)
    signed_in(await guess(home, url, ada.email, PASSWORD), url)


@WAYS
async def test_a_spent_address_tells_nobody_who_has_signed_in_from_it(api: Api, url: str) -> None:
    ada = await api.account(password=PASSWORD)
    home = await spent_home(api, url, ada)
    api.clock.advance(seconds=100)
    unknown = told(await guess(home, url, "other@example.org"))
    assert (unknown["status"], unknown["headers"]["retry-after"]) == (429, "800")
    for _ in range(ACQUAINTANCE.free + 2):
        assert told(await guess(home, url, ada.email)) == unknown
    entries = await api.live.audit.page(limit=100)
    noted = [entry for entry in entries if entry.target_id == str(ada.id)]
    assert [entry.action for entry in noted].count("sign_in.refused") == ACQUAINTANCE.free


async def test_a_spent_address_tells_its_own_wait_where_an_account_waits_longer(api: Api) -> None:
    url = f"{AUTH['live']}/login"
    ada = await api.account(password=PASSWORD)
    home = await spent_home(api, url, ada)
    api.clock.advance(seconds=15 * 60 - 40)
    unknown = told(await guess(home, url, "other@example.org"))
    assert (unknown["status"], unknown["headers"]["retry-after"]) == (429, "40")
    for _ in range(ACQUAINTANCE.free + 2):
        assert told(await guess(home, url, ada.email)) == unknown


async def test_guesses_at_accounts_that_know_an_address_are_failures_of_it_too(api: Api) -> None:
    home = "198.51.0.1"
    users = [await api.account(password=PASSWORD) for _ in range(ADDRESS.free + 5)]
    async with api.live.db.transaction() as tx:
        for user in users:
            await api.live.sessions.know_address(tx, user.id, home, api.clock())

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


async def test_a_known_address_is_delayed_too_where_it_guesses(api: Api, hashes: Hashes) -> None:
    url = f"{AUTH['live']}/login"
    ada = await api.account(password=PASSWORD)
    home = at(api, 1)
    assert (await guess(home, url, ada.email, PASSWORD)).status_code == 200
    for _ in range(ACQUAINTANCE.free):
        refused(await guess(home, url, ada.email), 401)
    hashes.verified.clear()
    answer = await guess(home, url, ada.email, PASSWORD)
    refused(answer, 429)
    assert answer.headers["retry-after"] == "60"
    assert hashes.verified == []
    # Guessing from home takes nothing from those who sign in from elsewhere.
    assert (await guess(at(api, 2), url, ada.email, PASSWORD)).status_code == 200


async def test_knowing_an_address_is_of_one_account_alone(api: Api) -> None:
    url = f"{AUTH['live']}/login"
    ada, bob = await api.account(password=PASSWORD), await api.account(password=PASSWORD)
    assert (await guess(at(api, 1), url, ada.email, PASSWORD)).status_code == 200
    for number in range(ACCOUNT.free):
        await guess(at(api, 100 + number), url, bob.email)
    refused(await guess(at(api, 1), url, bob.email, PASSWORD), 429)


async def test_an_ipv6_address_makes_its_own_network_of_64_bits_known_alone(api: Api) -> None:
    url = f"{AUTH['live']}/login"
    ada = await api.account(password=PASSWORD)
    assert (await Visitor(api, "[2001:db8:1:5::1]").log_in(ada.email)).status_code == 200
    for number in range(ACCOUNT.free):
        await guess(at(api, number), url, ada.email)
    for stranger in ("[2001:db8:1::1]", "[2001:db8:1:6::1]"):
        refused(await guess(Visitor(api, stranger), url, ada.email, PASSWORD), 429)
    assert (await Visitor(api, "[2001:db8:1:5::2]").log_in(ada.email)).status_code == 200


async def test_a_refused_sign_in_makes_no_address_known(api: Api) -> None:
    url = f"{AUTH['live']}/login"
    ada = await api.account(password=PASSWORD)
    await guess(at(api, 1), url, ada.email)
    assert not await api.live.sessions.knows_address(ada.id, "198.51.0.1")
    await guess(at(api, 1), url, ada.email, PASSWORD)
    assert await api.live.sessions.knows_address(ada.id, "198.51.0.1")


async def test_the_plan_free_limits_an_address_before_anything_is_hashed(
    api: Api, hashes: Hashes
) -> None:
    visitor = at(api, 1)
    for _ in range(30):
        await visitor.me()
    refused(await guess(visitor, f"{AUTH['live']}/login", "ada@example.com"), 429)
    assert hashes.verified == []


async def test_a_full_queue_of_hashes_is_503_and_hinders_nobody_else(
    api: Api, hashes: Hashes
) -> None:
    caller = await api.caller("viewer")
    url = f"{AUTH['live']}/login"
    hashes.hold.clear()
    waiting = [
        asyncio.create_task(guess(at(api, number), url, f"person{number}@example.org"))
        for number in range(QUEUE)
    ]
    await eventually(lambda: hashes.waiting == QUEUE, "the last hash")
    answer = await guess(at(api, 500), url, "one.more@example.org")
    refused(answer, 503, "SERVICE_UNAVAILABLE")
    assert answer.headers["retry-after"] == "2"
    assert (await caller.get("/users/me")).status_code == 200
    hashes.hold.set()
    assert {(await task).status_code for task in waiting} == {401}
    refused(await guess(at(api, 501), url, "one.more@example.org"), 401)


async def test_many_sign_ins_of_one_user_at_once_all_succeed(api: Api) -> None:
    ada = await api.account(password=PASSWORD)
    ways = [f"{AUTH['live']}/login", f"{BASE['live']}/sessions"]
    answers = await asyncio.gather(
        *(guess(at(api, 1), ways[number % 2], ada.email, PASSWORD) for number in range(10))
    )
    assert {answer.status_code for answer in answers} == {200, 201}
