"""Visits pages as a browser does, without one: cookies, origins, forms."""

import re
from html import unescape
from typing import Any

import httpx

from driving import Api
from portico.core.users import User

ORIGIN = "https://localhost:8443"
DASHBOARD = f"{ORIGIN}/dashboard"
PASSWORD = "Analytical-1843"


class Visitor:
    """Somebody with a browser."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.csrf = ""

    async def get(self, path: str, **headers: str) -> httpx.Response:
        """A page of the dashboard."""
        answer = await self.client.get(DASHBOARD + path, headers=headers)
        found = re.search(r'name="csrf" value="(\w+)"', answer.text)
        self.csrf = found[1] if found else self.csrf
        return answer

    async def post(self, path: str, **fields: Any) -> httpx.Response:
        """A form of the dashboard, as its page sends it."""
        return await self.send(path, {"csrf": self.csrf, **fields})

    async def saved(self, path: str, **fields: Any) -> httpx.Response:
        """A form that changes something, sent as the page of this path has it now."""
        page = await self.get(path)
        return await self.post(path, version=version_in(page), **fields)

    async def made(self, path: str, **fields: Any) -> httpx.Response:
        """The page that shows once what a form has made."""
        answer = await self.post(path, **fields)
        assert answer.status_code == 303, answer.text
        return await self.client.get(ORIGIN + answer.headers["location"])

    async def send(self, path: str, fields: dict[str, Any], **headers: str) -> httpx.Response:
        """A form with these fields alone; headers are named with `_` for `-`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.post(
            DASHBOARD + path, data=fields, headers={"origin": ORIGIN, **named}
        )


async def visitor(api: Api, user: User | None = None) -> Visitor:
    """Somebody with a browser, signed in as a user who has `PASSWORD`."""
    one = Visitor(api.stranger())
    if user is not None:
        answer = await one.send("/sign-in", {"email": user.email, "password": PASSWORD})
        assert answer.status_code == 303, answer.text
        await one.get("/password")
        assert one.csrf
    return one


async def signed_in(api: Api, role: str = "viewer", **values: Any) -> tuple[User, Visitor]:
    """A new user and their browser."""
    user = await api.account(role, password=PASSWORD, **values)
    return user, await visitor(api, user)


def version_in(page: httpx.Response) -> str:
    """The version that the form of a page began with."""
    found = re.search(r'name="version" value="([^"]*)"', page.text)
    assert found, page.text
    return unescape(found[1])


def held(page: httpx.Response, name: str) -> str:
    """What a field of a page holds."""
    found = re.search(rf'name="{name}"[^>]* value="([^"]*)"', page.text)
    assert found, f"{name} in {page.text}"
    return unescape(found[1])


def once_of(page: httpx.Response, action: str) -> str:
    """The key of the form on a page that leads to this path."""
    form = page.text.partition(f'action="/dashboard{action}"')[2].partition("</form>")[0]
    found = re.search(r'name="once" value="([^"]+)"', form)
    assert found, page.text
    return found[1]


def faults(answer: httpx.Response) -> dict[str, str]:
    """What a refused form says, by field."""
    return {
        name: unescape(text)
        for name, text in re.findall(r'<p class="fault" id="([\w-]+)-fault">(.*?)</p>', answer.text)
    }


def said(answer: httpx.Response, role: str = "alert") -> str:
    """What a page says at its top."""
    found = re.search(rf'<p class="notice \w+" role="{role}"[^>]*>(.*?)</p>', answer.text)
    return unescape(found[1]) if found else ""


def rows(answer: httpx.Response) -> list[str]:
    """The rows of a page's table, as text."""
    body = answer.text.replace("<wbr>", "").partition("<tbody>")[2].partition("</tbody>")[0]
    return [
        " ".join(unescape(re.sub(r"<[^>]*>", " ", row)).split()) for row in body.split("</tr>")[:-1]
    ]
