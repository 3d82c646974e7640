"""Keys of users for tests of gates, and requests to a service past Portico and through it."""

import re
import ssl
from collections.abc import Mapping
from typing import Any

import httpx

from oauth.authority import Authority
from operating import TIMEOUT_SECONDS
from portico_client import Client


def verifying_key(served: Authority) -> str:
    """A key that a service holds."""
    return _key(served, name="Service", scopes=["verify"])


def key_of(served: Authority, role: str, plan: str = "free", **more: Any) -> str:
    """A key of a new user."""
    person = served.person(role)
    served.installation.told("users", "set-plan", person.email, plan)
    return _key(served, name="A", user_id=person.id, **more)


def _key(served: Authority, **values: Any) -> str:
    ca = str(served.certificate)
    with Client(served.installation.key, base_url=served.api, ca=ca) as admin:
        return admin.api_keys.create(**{"type": "live", **values}).key


def sent(
    served: Authority, address: str, method: str = "GET", headers: Mapping[str, str] | None = None
) -> httpx.Response:
    """What is answered at this address."""
    trusted = ssl.create_default_context(cafile=served.certificate)
    return httpx.request(method, address, headers=headers, verify=trusted, timeout=TIMEOUT_SECONDS)


PAST_PORTICO = [
    ("viewer", "GET", "/7", 200),
    ("viewer", "GET", "/7?a=b", 200),
    ("viewer", "POST", "/7", 403),
    ("viewer", "PUT", "/7", 403),
    ("viewer", "GET", "/a%5cb", 400),
    ("viewer", "GET", "/a%00", 400),
    ("nobody", "GET", "/status", 200),
    ("nobody", "GET", "/7", 401),
    ("Bearer sk_live_x", "GET", "/7", 401),
    ("Bearer sk_live_x", "GET", "/status", 200),
    ("Basic eDp5", "GET", "/7", 401),
]
"""Who sends what to a service, and what they get."""


def assert_answered_alike(
    served: Authority, place: str, sender: str, method: str, path: str, status: int
) -> None:
    """Asserts that the gate at `place` answers as Portico does for what it forwards."""
    headers = {"authorization": sender}
    if sender == "viewer":
        headers = {"authorization": f"Bearer {key_of(served, 'viewer')}"}
    elif sender == "nobody":
        headers = {}
    ours, theirs = (
        sent(served, f"{where}{path}", method, headers)
        for where in (place, f"{served.api}/invoices")
    )
    assert (ours.status_code, theirs.status_code) == (status, status), ours.text
    names = ["x-ratelimit-limit"] if sender == "viewer" and status != 400 else []
    if status >= 400:
        names += ["content-type", "cache-control", "x-content-type-options"]
        assert ours.json()["error"]["code"] == theirs.json()["error"]["code"]
    if status == 401:  # the gate does not know which rule decides, and so which scope is needed
        told = re.sub(r'scope="[^"]*", ', "", theirs.headers["www-authenticate"])
        assert ours.headers["www-authenticate"] == told
        assert "resource_metadata=" in told
    elif status >= 400:
        assert ours.json() == theirs.json()
    for name in names:
        assert ours.headers[name] == theirs.headers[name], name
