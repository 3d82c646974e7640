"""People who answer an authorization request in a browser."""

import re
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import httpx

from driving import Api
from portico.core.users import User
from portico.features.access.clients import Registered
from signing_in import AUTH, CALLBACK, PASSWORD

HERE = "https://localhost:8443"
ORIGIN = {"origin": HERE}


class Person:
    """Somebody with a browser, at the authorization server."""

    def __init__(self, api: Api, user: User) -> None:
        self.browser = api.stranger()
        self.user = user

    async def get(self, address: str, **headers: str) -> httpx.Response:
        """A page."""
        return await self.browser.get(urljoin(HERE, address), headers=headers)

    async def decide(
        self, address: str, decision: str = "allow", boxes: dict[str, str] | None = None
    ) -> httpx.Response:
        """The form of the consent page with these boxes ticked, or all, sent to this address."""
        asked = CONSENT[self.user.id]
        if "prompt=" not in asked:
            asked = f"{asked}&prompt=consent"
        page = await self.get(f"{AUTH['live']}/authorize?{asked}")
        csrf = re.search(r'name="csrf" value="(\w+)"', page.text)
        assert csrf, page.text
        boxes = ticked(page) if boxes is None else boxes
        form = {**boxes, "csrf": csrf[1], "scopes": shown(page), "decision": decision}
        return await self.browser.post(urljoin(HERE, address), data=form, headers=ORIGIN)

    async def sign_in(self, address: str = f"{AUTH['live']}/sign-in") -> str:
        """The address that signing in there leads to."""
        hidden = dict(parse_qsl(urlsplit(address).query))
        form = {"email": self.user.email, "password": PASSWORD, "next": hidden.get("next", "")}
        answer = await self.browser.post(f"{AUTH['live']}/sign-in", data=form, headers=ORIGIN)
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]


def shown(consent: httpx.Response) -> str:
    """The scopes that a consent page shows, as its form has them."""
    found = re.search(r'name="scopes" value="([^"]*)"', consent.text)
    assert found, consent.text
    return found[1]


def ticked(consent: httpx.Response) -> dict[str, str]:
    """The boxes of a consent page."""
    return dict.fromkeys(re.findall(r'name="(may-[^"]+)"', consent.text), "yes")


CONSENT: dict[int, str] = {}
"""A request of each user that wants nothing in particular."""


def query(client: Registered, **wishes: str) -> str:
    """What a client asks for."""
    whole = {
        "response_type": "code",
        "client_id": client.client.client_id,
        "redirect_uri": CALLBACK,
        "scope": "openid read:products",
        "state": "s",
        **wishes,
    }
    return urlencode(whole)


def address(client: Registered, **wishes: str) -> str:
    """Where a client sends the browser."""
    return f"{AUTH['live']}/authorize?{query(client, **wishes)}"


def wants_sign_in(answer: httpx.Response) -> str:
    """Sees that the browser is sent to sign in; returns where."""
    assert answer.status_code == 303, answer.text
    where = answer.headers["location"]
    assert urlsplit(where).path == "/auth/sign-in", where
    return str(where)


def told(answer: httpx.Response) -> dict[str, str]:
    """Sees that the browser goes back to the client; returns with what."""
    assert answer.status_code == 303, answer.text
    where = urlsplit(answer.headers["location"])
    assert f"{where.scheme}://{where.netloc}{where.path}" == CALLBACK
    return dict(parse_qsl(where.query))


def asks_for_consent(answer: httpx.Response) -> bool:
    """Whether an answer is the consent page."""
    return answer.status_code == 200 and 'name="decision"' in answer.text


async def exchanged(api: Api, client: Registered, code: str) -> dict[str, Any]:
    """What a code buys."""
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
    secret = {"client_id": client.client.client_id, "client_secret": client.secret or ""}
    answer = await api.stranger().post(f"{AUTH['live']}/token", data={**form, **secret})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())
