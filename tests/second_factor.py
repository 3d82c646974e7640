"""People with a second factor, at each entrance."""

import re
from collections.abc import Callable
from typing import Any

import httpx
import pyotp

from driving import Api
from portico.core.audit import OPERATOR
from portico.core.users import User
from portico.environment import Environment
from portico.features.signin.rules import step_of
from portico.features.signin.second_factor import Enrolment, add_authenticator
from signing_in import AUTH, PASSWORD, Visitor

HERE = "https://localhost:8443"
DASHBOARD = f"{HERE}/dashboard"
ORIGIN = {"origin": HERE}
SITES = {
    "dashboard": ("live", DASHBOARD),
    "auth": ("live", AUTH["live"]),
    "sandbox auth": ("sandbox", AUTH["sandbox"]),
}
KEY = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
CODES = tuple(f"aaaa-bbbb-cccc-{letter * 4}" for letter in "abcdefghij")


def code_of(api: Api, steps: int = 0, key: str = KEY) -> str:
    """What the app shows now, or so many steps from now."""
    return pyotp.TOTP(key).generate_otp(step_of(api.clock()) + steps)


async def factored(api: Api, env: Environment | None = None, **values: Any) -> User:
    """Somebody with an app and recovery codes, whose codes of now are not used."""
    env = env or api.live
    user = await api.account(env=env, **({"password": PASSWORD} | values))
    enrolment = Enrolment(KEY, step_of(api.clock()) - 2, "Phone", CODES)
    await env.change(OPERATOR, lambda change: add_authenticator(env, change, user, enrolment))
    return user


def refused_for_otp(answer: httpx.Response) -> str:
    """Sees that an answer is 401 for the second factor alone; returns what it says."""
    assert answer.status_code == 401, answer.text
    error = answer.json()["error"]
    assert error["code"] == "AUTHENTICATION_REQUIRED"
    (detail,) = error["details"]
    assert detail["field"] == "otp"
    return str(detail["message"])


class Way:
    """One of the two ways in of the API."""

    def __init__(self, api: Api, path: str) -> None:
        self.visitor = Visitor(api, "192.0.2.7")
        self.url = HERE + path

    async def send(self, user: User, otp: str | None = None, password: str = PASSWORD) -> Any:
        """One attempt."""
        more = {} if otp is None else {"otp": otp}
        body = {"email": user.email, "password": password, **more}
        return await self.visitor.send("POST", self.url, body)


class Person:
    """Somebody with a browser, at one site."""

    def __init__(self, api: Api, at: str) -> None:
        self.browser = api.stranger()
        self.at = at

    async def post(self, path: str, **form: str) -> httpx.Response:
        """A form of that site."""
        return await self.browser.post(self.at + path, data=form, headers=ORIGIN)

    async def csrf(self, path: str = "/security") -> str:
        """What the forms of a page carry."""
        return csrf_in(await self.browser.get(self.at + path))

    async def password(self, user: User, **more: str) -> httpx.Response:
        """The first step."""
        return await self.post("/sign-in", email=user.email, password=PASSWORD, **more)


def csrf_in(page: httpx.Response) -> str:
    """What the forms of this page carry."""
    found = re.search(r'name="csrf" value="(\w+)"', page.text)
    assert found, page.text
    return found[1]


def session_in(answer: httpx.Response) -> bool:
    """Whether an answer opens a session."""
    return any(one.startswith("__Host-session=") for one in answer.headers.get_list("set-cookie"))


async def enrolled(
    api: Api, person: Person, path: str, steps: int = 0, spelled: Callable[[str], str] = str
) -> httpx.Response:
    """What comes of the form that sets up an app."""
    page = await person.browser.get(person.at + path)
    assert page.status_code == 200, page.text
    hidden = dict(re.findall(r'name="(csrf|secret|next)" value="(.*?)"', page.text))
    key = re.search(r"secret=([A-Z2-7]{32})&", page.text)
    assert key
    assert "<svg" in page.text
    person.key = key[1]  # type: ignore[attr-defined]
    otp = spelled(code_of(api, steps, person.key))  # type: ignore[attr-defined]
    return await person.post(path, **hidden, name="Phone", otp=otp)
