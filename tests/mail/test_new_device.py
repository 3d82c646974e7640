"""A sign-in on a new device is told by mail; one from where the account has been is not."""

import asyncio
from typing import Any

import pytest

from driving import Api
from mail.conftest import Post, link, words
from pages.visiting import Visitor as Browser
from portico.core.users import User
from second_factor import code_of, factored
from signing_in import PASSWORD, Visitor

pytestmark = pytest.mark.one_engine

FIREFOX = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0"
HOME, AWAY, FARTHER = "192.0.2.1:1000", "198.51.100.2:1000", "203.0.113.3:1000"


async def someone(api: Api, **values: Any) -> User:
    """Somebody who has signed in from `HOME`, long ago."""
    user = await api.account(password=PASSWORD, **values)
    assert (await Visitor(api, HOME.partition(":")[0]).log_in(user.email)).status_code == 200
    return user


async def sign_in(user: User, browser: Browser) -> None:
    answer = await browser.send("/sign-in", {"email": user.email, "password": PASSWORD})
    assert answer.status_code == 303, answer.text


def browser(api: Api, place: str) -> Browser:
    """One without cookies."""
    return Browser(api.stranger(place, **{"user-agent": FIREFOX}))


async def test_sign_in_of_a_new_browser_at_a_new_address_is_mailed(api: Api, post: Post) -> None:
    user = await someone(api)
    await sign_in(user, browser(api, HOME))
    answer = await Visitor(api, "198.51.100.2").log_in(user.email, "wrong")
    assert answer.status_code == 401
    assert await post.new() == [], "neither the first one, nor at home, nor a refused one"
    api.clock.advance(seconds=60)
    await sign_in(user, browser(api, AWAY))
    (message,) = await post.new()
    assert (message["To"], message["Subject"]) == (
        user.email,
        "A new device signed in to your Portico account",
    )
    assert "with Firefox on Windows from the IP address 198.51.100.2" in words(message)
    assert "on 2026-03-15 at 12:01 UTC" in words(message)
    assert link(message) == "https://localhost:8443/dashboard/devices"


async def test_known_cookie_at_a_new_address_mails_nothing(api: Api, post: Post) -> None:
    user, other = await someone(api), await someone(api)
    phone = browser(api, AWAY)
    await sign_in(user, phone)
    assert len(await post.new()) == 1
    moved = browser(api, FARTHER)
    moved.client.cookies = phone.client.cookies
    await sign_in(user, moved)
    assert await post.new() == []
    (cookie,) = (one for one in moved.client.cookies.jar if one.name == "__Host-device")
    assert cookie.value is not None
    assert len(cookie.value) == 43
    assert cookie.value not in str(await api.state())
    await sign_in(other, moved)  # whom the phone's cookie tells nothing of
    assert [message["To"] for message in await post.new()] == [other.email]


@pytest.mark.parametrize("way", ["/login", "/sessions"])
async def test_program_is_known_by_its_address_alone(api: Api, post: Post, way: str) -> None:
    user = await someone(api)
    program = Visitor(api, "198.51.100.2")

    async def enter() -> None:
        if way == "/login":
            answer = await program.log_in(user.email, user_agent="curl/8.5.0")
        else:
            answer = await program.open_session(user.email, user_agent="curl/8.5.0")
        assert answer.status_code < 300, answer.text

    await enter()
    (message,) = await post.new()
    assert "with curl from the IP address 198.51.100.2" in words(message)
    await enter()
    assert await post.new() == []


async def test_new_device_is_mailed_after_the_second_step_alone(api: Api, post: Post) -> None:
    user = await factored(api, last_login_at=api.clock())
    assert len(await post.new()) == 1, "that there is an app"
    stranger = browser(api, AWAY)
    await sign_in(user, stranger)
    assert await post.new() == []
    answer = await stranger.send("/sign-in/code", {"otp": code_of(api)})
    assert answer.status_code == 303, answer.text
    assert len(await post.new()) == 1


async def test_ipv6_address_is_known_by_its_network(api: Api, post: Post) -> None:
    user = await someone(api)
    for address, told in (
        ("2001:db8:1:1::1", 1),
        ("2001:db8:1:2::2", 0),
        ("2001:db8:2:1::1", 1),
    ):
        assert (await Visitor(api, f"[{address}]").log_in(user.email)).status_code == 200
        assert len(await post.new()) == told, address


async def test_concurrent_sign_ins_of_a_new_device_mail_once(api: Api, post: Post) -> None:
    user = await someone(api)
    visitor = Visitor(api, "198.51.100.2")
    answers = await asyncio.gather(*(visitor.log_in(user.email) for _ in range(4)))
    assert [answer.status_code for answer in answers] == [200] * 4
    assert len(await post.new()) == 1


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        (FIREFOX, "mit Firefox unter Windows von der IP-Adresse 198.51.100.2 aus"),
        ("Mozilla/5.0", "mit einem unbekannten Browser unter einem unbekannten System"),
        ("curl/8.5.0", "mit curl von"),
        ("", "mit einem unbekannten Programm"),
    ],
)
async def test_new_device_is_named_in_the_language_of_the_mail(
    api: Api, post: Post, agent: str, said: str
) -> None:
    user = await someone(api, language="de")
    await Visitor(api, "198.51.100.2").log_in(user.email, user_agent=agent)
    (message,) = await post.new()
    assert said in words(message)
    assert message["Subject"] == "Anmeldung bei Portico von einem neuen Gerät"
