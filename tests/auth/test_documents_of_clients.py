"""Clients that nobody registered: by their own document, or by themselves (RFC 7591)."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from answering import answering
from authorizing import CONSENT, Person, asks_for_consent
from driving import Api
from portico.core.audit import OPERATOR
from portico.core.networks import Destinations
from portico.core.oauth import CLIENT_ASSERTION_TYPE, CLIENT_CREDENTIALS
from portico.features.access.clients import Registration, register_client
from portico.features.access.documents import Documents
from portico.features.access.storage import Clients
from portico.features.operations.tidy import Tidy
from portico.outbound.sender import Sender
from receiving import authority
from signing_in import AUTH, CHALLENGE, VERIFIER, Visitor, oauth_refused

pytestmark = pytest.mark.one_engine

HERE = Destinations((ip_network("127.0.0.0/8"),))
REDIRECT = "http://localhost:3000/callback"


class Site:
    """Whoever publishes a document."""

    def __init__(self) -> None:
        self.port = 0
        self.status = "200 OK"
        self.headers = ""
        self.body = b""
        self.keys: list[Any] = []
        self.requests = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/client.json"

    @property
    def keys_uri(self) -> str:
        return f"https://127.0.0.1:{self.port}/keys.json"

    def says(self, **changes: Any) -> None:
        """Publishes a good document, but for these changes; None leaves a member out."""
        members = {
            "client_id": self.url,
            "client_name": "Editor",
            "redirect_uris": [REDIRECT],
            "token_endpoint_auth_method": "none",
            **changes,
        }
        members = {name: value for name, value in members.items() if value is not None}
        self.body = json.dumps(members).encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            asked = await reader.readuntil(b"\r\n\r\n")
            self.requests += 1
            body = self.body
            if b"/keys.json" in asked:
                body = json.dumps(
                    {"keys": [key.as_dict(private=False) for key in self.keys]}
                ).encode()
            head = f"HTTP/1.1 {self.status}\r\ncontent-length: {len(body)}\r\n{self.headers}"
            writer.write(head.encode() + b"connection: close\r\n\r\n" + body)
            await writer.drain()
        writer.close()


@pytest.fixture
async def site(api: Api, tmp_path: Path) -> AsyncIterator[Site]:
    tls = authority(tmp_path)
    sender = Sender(HERE, api.clock, tls=tls.senders)
    api.live.destinations = HERE
    api.live[Documents] = Documents(api.live, sender)
    made = Site()
    async with answering(made.serve, tls.receivers, host="127.0.0.1", port=0) as made.port:
        made.says()
        yield made
    await sender.close()


def asked(client_id: str, **wishes: str) -> str:
    parameters = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": REDIRECT,
        "scope": "read:products admin",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        **wishes,
    }
    return urlencode(parameters)


async def ask(person: Person, client_id: str, **wishes: str) -> Any:
    return await person.get(f"{AUTH['live']}/authorize?{asked(client_id, **wishes)}")


async def allow(person: Person, client_id: str) -> str:
    CONSENT[person.user.id] = asked(client_id)
    answer = await person.decide(f"{AUTH['live']}/authorize?{asked(client_id)}")
    assert answer.status_code == 303, answer.text
    where = answer.headers["location"]
    assert where.startswith(f"{REDIRECT}?")
    return parse_qs(urlsplit(where).query)["code"][0]


async def exchange(api: Api, client_id: str, code: str, **more: str) -> Any:
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT}
    form |= {"client_id": client_id, "code_verifier": VERIFIER, **more}
    return await Visitor(api).form("token", form)


async def test_document_makes_a_client_once_somebody_consents(
    api: Api, site: Site, ada: Person
) -> None:
    async with api.unchanged():
        page = await ask(ada, site.url)
        assert asks_for_consent(page)
    host = site.url.split("/")[2]
    assert page.text.index(host) < page.text.index("Editor"), "the host is named first"
    tokens = (await exchange(api, site.url, await allow(ada, site.url))).json()
    assert tokens["scope"] == "read:products", "admin is for registered clients"
    assert (await Visitor(api).me(tokens["access_token"])).status_code == 200
    assert site.requests == 1
    other = await allow(ada, site.url)
    assert (await exchange(api, site.url, other)).status_code == 200
    assert (await api.live[Clients].page(offset=0, limit=9)).total == 1
    list_page = await ada.get("/dashboard/applications")
    assert list_page.text.index(host) < list_page.text.index("Editor")


@pytest.mark.parametrize(
    ("changes", "is_asked"),
    [
        ({}, False),
        ({"logo_uri": "https://shop.example/logo"}, False),
        ({"client_name": "Bank"}, True),
        ({"redirect_uris": ["https://app.example/cb", "https://app.example/more"]}, True),
    ],
)
async def test_changed_document_is_asked_for_again(
    api: Api, site: Site, ada: Person, changes: dict[str, Any], *, is_asked: bool
) -> None:
    web = {"redirect_uris": ["https://app.example/cb"]}
    site.says(**web)
    wishes = {"redirect_uri": "https://app.example/cb"}
    CONSENT[ada.user.id] = asked(site.url, **wishes)
    url = f"{AUTH['live']}/authorize?{asked(site.url, **wishes)}"
    assert (await ada.decide(url)).status_code == 303
    assert not asks_for_consent(await ada.get(url))
    site.says(**{**web, **changes})
    assert not asks_for_consent(await ada.get(url)), "it is kept for five minutes"
    api.clock.advance(seconds=300)
    assert asks_for_consent(await ada.get(url)) == is_asked
    assert (await ada.decide(url)).status_code == 303
    assert not asks_for_consent(await ada.get(url))


async def test_document_is_kept_as_its_headers_say_within_bounds(api: Api, site: Site) -> None:
    for max_age, seconds in (
        ("", 300),
        ("max-age=0", 300),
        ("max-age=900", 900),
        ("public, max-age=999999", 86_400),
        ("no-store, max-age=900", 300),
    ):
        site.headers, site.requests = f"cache-control: {max_age}\r\n" if max_age else "", 0
        api.clock.advance(days=1)
        for later, requests in ((0, 1), (seconds - 1, 1), (1, 2)):
            api.clock.advance(seconds=later)
            await api.live[Documents].client(site.url)
            assert site.requests == requests, max_age


FAULTS: list[dict[str, Any]] = [
    {"client_id": "https://other.example/client.json"},
    {"client_id": None},
    {"redirect_uris": []},
    {"redirect_uris": ["javascript:alert(1)"]},
    {"redirect_uris": ["https://*.example/"]},
    {"redirect_uris": REDIRECT},
    {"redirect_uris": None},
    {"token_endpoint_auth_method": "client_secret_basic"},
    {"client_name": "x" * 101},
    {"client_name": "Editor\0"},
    {"more": "x" * 20_000},
    *(
        {"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": uri}
        for uri in ("ftp://shop.example/keys", "https://10.0.0.1/keys", "x\0", None)
    ),
]


async def test_document_with_a_fault_is_an_error_page(api: Api, site: Site, ada: Person) -> None:
    async with api.unchanged():
        for changes in FAULTS:
            site.says(**changes)
            answer = await ask(ada, site.url)
            assert answer.status_code == 400, changes
            assert "invalid_client" in answer.text
        site.says()
        for status in ("301 Moved\r\nlocation: /x", "404 Not Found", "204 No"):
            site.status, site.requests = status, 0
            assert (await ask(ada, site.url)).status_code == 400
            assert site.requests == 1, "no redirect is followed"


async def test_document_elsewhere_than_at_a_public_https_address_is_not_fetched(
    api: Api, ada: Person
) -> None:
    sender = Sender(api.live.destinations, api.clock, look_up=lambda _: ["10.0.0.9"])
    api.live[Documents] = Documents(api.live, sender)
    async with api.unchanged():
        for url in (
            "https://intranet.example/client.json",
            "https://127.0.0.1/client.json",
            "https://localhost/client.json",
            "https://10.0.0.1/client.json",
            "https://[::1]/client.json",
            "https://shop.example",
            "https://shop.example/",
            "https://shop.example/a/../client.json",
            "https://user@shop.example/client.json",
            "https://SHOP.example/client.json",
            "https://shop.example/client.json#x",
            "https://[::1/client.json",
            "http://shop.example/client.json",
        ):
            answer = await ask(ada, url)
            assert answer.status_code == 400, url
            assert "10.0.0.9" not in answer.text, "strangers learn nothing of the network inside"
    await sender.close()


async def test_error_leads_to_the_site_of_an_unregistered_client_only_after_sign_in(
    api: Api, site: Site, ada: Person
) -> None:
    api.live.settings = replace(api.live.settings, client_registration=True)
    stranger = Person(api, ada.user)
    for client_id in (site.url, (await register(api)).json()["client_id"]):
        for wishes in ({"response_type": "token"}, {"prompt": "none"}):
            answer = await ask(stranger, client_id, **wishes)
            assert (answer.status_code, answer.headers.get("location")) == (400, None)
            assert (await ask(ada, client_id, **wishes)).headers["location"].startswith(REDIRECT)


async def test_settings_narrow_or_end_documents(api: Api, site: Site, ada: Person) -> None:
    code = await allow(ada, site.url)
    for more in ({"client_id_hosts": ("other.example",)}, {"client_id_documents": False}):
        api.live[Documents] = Documents(api.live, Sender(HERE, api.clock))
        before, api.live.settings = api.live.settings, replace(api.live.settings, **more)
        assert (await ask(ada, site.url)).status_code == 400
        oauth_refused(await exchange(api, site.url, code), 401, "invalid_client")
        api.live.settings = before


KEY, NEXT = (ECKey.generate_key("P-256", {"kid": kid}, private=True) for kid in ("one", "two"))


def signed(api: Api, client_id: str, key: ECKey) -> dict[str, str]:
    """What a client proves with who it is."""
    claims: dict[str, Any] = {"iss": client_id, "sub": client_id, "aud": AUTH["live"]}
    claims |= {"exp": api.clock() // 1000 + 60, "jti": api.live.random(8).hex()}
    assertion = jwt.encode({"alg": "ES256", "kid": key.kid}, claims, key, algorithms=["ES256"])
    return {"client_assertion": assertion, "client_assertion_type": CLIENT_ASSERTION_TYPE}


@pytest.mark.parametrize("is_here", [True, False])
async def test_client_of_a_document_with_keys_must_sign(
    api: Api, site: Site, ada: Person, *, is_here: bool
) -> None:
    site.keys = [KEY]
    own = (
        {"jwks": {"keys": [KEY.as_dict(private=False)]}} if is_here else {"jwks_uri": site.keys_uri}
    )
    site.says(token_endpoint_auth_method="private_key_jwt", **own)
    code = await allow(ada, site.url)
    oauth_refused(await exchange(api, site.url, code), 401, "invalid_client")
    wrong = await exchange(api, site.url, code, **signed(api, site.url, NEXT))
    oauth_refused(wrong, 401, "invalid_client")
    right = await exchange(api, site.url, code, **signed(api, site.url, KEY))
    assert right.json()["scope"] == "read:products"


async def test_new_key_of_a_client_is_looked_for_after_five_minutes(api: Api, site: Site) -> None:
    site.keys, site.headers = [KEY], "cache-control: max-age=86400\r\n"
    wanted = Registration(
        "Worker", (), "read:products", grants=("client_credentials",), jwks_uri=site.keys_uri
    )
    owner = await api.account("admin")
    worker = await register_client(api.live, owner, wanted, public=False, by=OPERATOR)
    name = worker.client.client_id

    async def status(key: ECKey) -> int:
        form = {"grant_type": CLIENT_CREDENTIALS, **signed(api, name, key)}
        return (await Visitor(api).form("token", form)).status_code

    assert (await status(KEY), await status(KEY), site.requests) == (200, 200, 1)
    site.keys = [NEXT]
    assert (await status(NEXT), await status(KEY), site.requests) == (401, 200, 1)
    api.clock.advance(seconds=300)
    assert (await status(NEXT), await status(KEY), site.requests) == (200, 401, 2)
    api.clock.advance(days=1)
    site.status = "503 Busy"
    assert (await status(NEXT), site.requests) == (401, 3)


async def register(api: Api, **changes: Any) -> Any:
    body = {"client_name": "Editor", "redirect_uris": [REDIRECT], **changes}
    return await Visitor(api).send("POST", f"{AUTH['live']}/register", body)


async def test_client_registers_itself_where_that_is_on_and_goes_if_unused(
    api: Api, ada: Person
) -> None:
    assert (await register(api)).status_code == 403
    api.live.settings = replace(api.live.settings, client_registration=True)
    metadata = f"{AUTH['live']}/.well-known/oauth-authorization-server"
    told = (await Visitor(api).send("GET", metadata)).json()
    assert told["registration_endpoint"] == f"{AUTH['live']}/register"
    used, unused = [(await register(api, unknown=1)).json() for _ in range(2)]
    assert used["token_endpoint_auth_method"] == "none"
    api.clock.advance(days=10)
    await ada.sign_in()
    code = await allow(ada, used["client_id"])
    assert (await exchange(api, used["client_id"], code)).status_code == 200
    api.clock.advance(days=20, milliseconds=1)
    await Tidy(api.live, "here").run()
    clients = api.live[Clients]
    assert await clients.by_client_id(used["client_id"])
    assert await clients.by_client_id(unused["client_id"]) is None


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"redirect_uris": ["http://shop.example/"]}, "invalid_redirect_uri"),
        ({"redirect_uris": []}, "invalid_redirect_uri"),
        ({"redirect_uris": "x"}, "invalid_client_metadata"),
        ({"client_name": "x" * 101}, "invalid_client_metadata"),
        ({"client_name": "Editor\0"}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"),
    ],
)
async def test_registration_with_a_fault_makes_no_client(
    api: Api, changes: dict[str, Any], error: str
) -> None:
    api.live.settings = replace(api.live.settings, client_registration=True)
    async with api.unchanged():
        oauth_refused(await register(api, **changes), 400, error)
