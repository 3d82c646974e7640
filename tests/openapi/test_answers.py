"""Real answers conform to the document, to the last header and field."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from conformance import Conformance
from driving import Api, Caller, settings_for
from event_examples import examples
from operating import free_port
from portico.core.audit import OPERATOR
from portico.environment import Environment
from portico.features.access.api_keys import revoke_key
from portico.features.access.clients import Registration, register_client
from portico.features.events.storage import Deliveries, Events
from portico.features.people.accounts import give_key
from signing_in import AUTH, CALLBACK, PASSWORD, client_of, code_of, cookie_of, tokens_of

USER = {"name": "Ada Lovelace", "email": "ada@example.com", "password": "Analytical1"}
JSON = {"content-type": "application/json"}
PRODUCT = {
    "name": "Lamp",
    "category": "light",
    "price": 12.5,
    "images": [{"url": "https://example.com/a.png"}],
    "metadata": {"a": "b"},
}


class Walk:
    """Requests whose answers are all held against the document."""

    def __init__(self, described: dict[str, Any]) -> None:
        self.conformance = Conformance(described)

    async def __call__(
        self,
        client: httpx.AsyncClient,
        method: str,
        path: str,
        status: int,
        *,
        id: int | str = 0,  # noqa: A002 - the name of the path's parameter
        **request: Any,
    ) -> httpx.Response:
        """One request of the document's `path`, which is answered with `status`."""
        answer = await client.request(method, path.replace("{id}", str(id)), **request)
        assert answer.status_code == status, answer.text
        self.conformance.check(path, answer)
        return answer


async def test_every_success_is_as_documented(api: Api, described: dict[str, Any]) -> None:
    walk = Walk(described)
    admin = await api.caller("admin")
    editor = await api.caller("editor")
    for path, new, change in (
        ("/users", USER, {"preferences": {"theme": "dark"}}),
        ("/products", PRODUCT, {"price": 0.0001, "status": "active"}),
    ):
        made = (await walk(admin, "POST", path, 201, json=new)).json()["data"]["id"]
        listed = await walk(admin, "GET", path, 200)
        await walk(admin, "GET", path, 304, headers={"If-None-Match": listed.headers["etag"]})
        one = f"{path}/{{id}}"
        await walk(admin, "PATCH", one, 200, id=made, json=change)
        read = await walk(admin, "GET", one, 200, id=made)
        tag = {"If-None-Match": read.headers["etag"]}
        await walk(admin, "GET", one, 304, id=made, headers=tag)
        writer = await _writer(api, path.strip("/"))
        await walk(writer, "PATCH", one, 200, id=made, json=change)
        await walk(admin, "DELETE", one, 204, id=made, headers={"If-Match": "*"})
    await walk(admin, "POST", "/products/batch", 200, json={"items": [PRODUCT, {}]})
    other = await api.caller("viewer")  # whose list of keys nobody compares below
    await _use_accounts(walk, admin, other.user.id)
    await walk(admin, "POST", "/verify", 200, json={"credential": other.key})
    me = await walk(admin, "GET", "/users/me", 200)
    await walk(admin, "GET", "/users/me", 304, headers={"If-None-Match": me.headers["etag"]})
    await walk(admin, "PATCH", "/users/me", 200, json={"avatar_url": None})
    await _use_keys(walk, admin, editor)
    await _use_webhooks(api.live, walk, admin)
    events = await walk(admin, "GET", "/events", 200)
    await walk(admin, "GET", "/events", 304, headers={"If-None-Match": events.headers["etag"]})
    async with editor.stream("GET", "/events/stream") as stream:
        await revoke_key(api.live, editor.record.id, OPERATOR)
        await stream.aread()
    walk.conformance.check("/events/stream", stream)
    again = {"Idempotency-Key": "one"}
    await walk(admin, "POST", "/api-keys/rotate", 201, headers=again)
    await walk(admin, "POST", "/api-keys/rotate", 201, headers=again)
    await _sign_in(api, walk)
    await _use_oauth(api, walk)
    assert walk.conformance.seen == set(_successes(described))


async def _writer(api: Api, plural: str) -> httpx.AsyncClient:
    """A key that may write one kind of resource and read none."""
    made = await give_key(
        api.live, await api.account("admin"), name="Writer", key_type="live", expires_at=None,
        by=OPERATOR, scopes=[f"write:{plural}"],
    )  # fmt: skip
    return api.stranger(authorization=f"Bearer {made.secret}")


async def test_a_refusal_that_comes_again_is_as_documented(
    api: Api, described: dict[str, Any]
) -> None:
    walk = Walk(described)
    admin = await api.caller("admin")
    assert (await admin.post("/users", json=USER)).status_code == 201
    again = {"Idempotency-Key": "one"}
    for method, path, status, request in (
        ("POST", "/users", 409, {"json": USER}),
        ("POST", "/webhooks/{id}/test", 404, {"id": 17}),
        ("POST", "/webhooks/{id}/rotate-secret", 404, {"id": 17}),
    ):
        await walk(admin, method, path, status, headers=again, **request)
        answer = await walk(admin, method, path, status, headers=again, **request)
        assert answer.headers["idempotent-replayed"] == "true"


async def test_every_delivery_is_as_documented(api: Api, described: dict[str, Any]) -> None:
    conformance = Conformance(described)
    made = await examples(api)
    assert made.keys() == described["webhooks"].keys()
    for name, event in made.items():
        conformance.check_delivery(name, event)


async def _use_keys(walk: Walk, admin: Caller, owner: Caller) -> None:
    # Of somebody else: one's own key says when it was last used, which changes meanwhile.
    whose = {"user_id": owner.record.user_id}
    listed = await walk(admin, "GET", "/api-keys", 200, params=whose)
    tag = {"If-None-Match": listed.headers["etag"]}
    await walk(admin, "GET", "/api-keys", 304, params=whose, headers=tag)
    new = {"name": "Till", "type": "live", "networks": ["203.0.113.0/24"]}
    made = (await walk(admin, "POST", "/api-keys", 201, json=new)).json()["data"]["id"]
    read = await walk(admin, "GET", "/api-keys/{id}", 200, id=made)
    tag = {"If-None-Match": read.headers["etag"]}
    await walk(admin, "GET", "/api-keys/{id}", 304, id=made, headers=tag)
    await walk(admin, "DELETE", "/api-keys/{id}", 204, id=made)


async def _use_accounts(walk: Walk, admin: Caller, user_id: int) -> None:
    account = "/users/{id}/account"
    change = {"external_id": "crm-4711", "metadata": {"a": "b"}, "suspended": False}
    await walk(admin, "PATCH", account, 200, id=user_id, json=change)
    invited = {"email": "invited@example.com"}
    made = (await walk(admin, "POST", "/invitations", 201, json=invited)).json()["data"]["id"]
    one = "/invitations/{id}"
    await walk(admin, "POST", f"{one}/renew", 201, id=made)
    for path in ("/invitations", one):
        read = await walk(admin, "GET", path, 200, id=made)
        await walk(
            admin, "GET", path, 304, id=made, headers={"If-None-Match": read.headers["etag"]}
        )
    await walk(admin, "DELETE", one, 204, id=made)
    new = {"name": "Shop", "redirect_uris": ["https://shop.example.com/"]}
    client_id = (await walk(admin, "POST", "/clients", 201, json=new)).json()["data"]["client_id"]
    one = "/clients/{id}"
    await walk(admin, "PATCH", one, 200, id=client_id, json={"scopes": ["read:products"]})
    await walk(admin, "POST", f"{one}/rotate-secret", 201, id=client_id)
    for path in ("/clients", one):
        read = await walk(admin, "GET", path, 200, id=client_id)
        tag = {"If-None-Match": read.headers["etag"]}
        await walk(admin, "GET", path, 304, id=client_id, headers=tag)
    await walk(admin, "DELETE", one, 204, id=client_id)
    for path in (account, "/plans", "/audit", "/usage"):
        read = await walk(admin, "GET", path, 200, id=user_id)
        tag = {"If-None-Match": read.headers["etag"]}
        await walk(admin, "GET", path, 304, id=user_id, headers=tag)


async def _use_webhooks(env: Environment, walk: Walk, admin: Caller) -> None:
    hook = {"url": "https://hooks.example.com/", "types": ["*"]}
    made = (await walk(admin, "POST", "/webhooks", 201, json=hook)).json()["data"]["id"]
    one = "/webhooks/{id}"
    for path in ("/webhooks", one, f"{one}/deliveries"):
        read = await walk(admin, "GET", path, 200, id=made)
        tag = {"If-None-Match": read.headers["etag"]}
        await walk(admin, "GET", path, 304, id=made, headers=tag)
    await walk(admin, "PATCH", one, 200, id=made, json={"description": "All"})
    await walk(admin, "POST", f"{one}/rotate-secret", 201, id=made)
    await walk(admin, "POST", f"{one}/test", 202, id=made)
    await _redeliver(env, walk, admin, made)
    await walk(admin, "DELETE", one, 204, id=made)


async def _redeliver(env: Environment, walk: Walk, admin: Caller, webhook_id: int) -> None:
    async with env.db.transaction() as tx:
        last = await env[Events].numbered_in(tx)
        await env[Deliveries].add(tx, env.clock(), [(webhook_id, last, "api_key.created")])
        delivery = await env[Deliveries].last_of(tx, webhook_id)
    path = f"/webhooks/{webhook_id}/deliveries/{delivery}/redeliver"
    answer = await admin.post(path)
    assert answer.status_code == 202, answer.text
    walk.conformance.check("/webhooks/{id}/deliveries/{delivery_id}/redeliver", answer)


async def _sign_in(api: Api, walk: Walk) -> None:
    ada = await api.account("editor", password=PASSWORD)
    stranger = api.stranger()
    who = {"email": ada.email, "password": PASSWORD}
    opened = await walk(stranger, "POST", "/sessions", 201, json=who)
    cookie = {"cookie": f"__Host-session={cookie_of(opened)}"}
    stranger.cookies.clear()
    await walk(stranger, "DELETE", "/sessions", 204, headers=cookie)
    at_auth = api.stranger()
    at_auth.base_url = httpx.URL(AUTH["live"])
    tokens = (await walk(at_auth, "POST", "/login", 200, json=who)).json()
    held = {"refresh_token": tokens["refresh_token"]}
    tokens = (await walk(at_auth, "POST", "/refresh", 200, json=held)).json()
    held = {"refresh_token": tokens["refresh_token"]}
    await walk(at_auth, "POST", "/logout", 204, json=held)
    for name in ("jwks.json", "openid-configuration", "oauth-authorization-server"):
        await walk(at_auth, "GET", f"/.well-known/{name}", 200)


async def _use_oauth(api: Api, walk: Walk) -> None:
    ada = await api.account("editor")
    registered = await client_of(api.live, ada)
    client = registered.client
    tokens = await tokens_of(api.live, client, ada, "openid profile email")
    at_auth = api.stranger()
    at_auth.base_url = httpx.URL(AUTH["live"])
    bearer = {"authorization": f"Bearer {tokens.access_token}"}
    for method in ("GET", "POST"):
        await walk(at_auth, method, "/userinfo", 200, headers=bearer)
    at_auth.auth = httpx.BasicAuth(client.client_id, registered.secret or "")
    code = await code_of(api.live, client, ada, "openid read:products")
    grant = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
    await walk(at_auth, "POST", "/token", 200, data=grant)
    for token in (tokens.access_token, tokens.refresh_token, "unknown"):
        await walk(at_auth, "POST", "/introspect", 200, data={"token": token})
    await walk(at_auth, "POST", "/revoke", 200, json={"token": tokens.refresh_token})
    wanted = Registration("Till", (), "read:products", grants=("device_code",))
    till = await register_client(api.live, None, wanted, public=True, by=OPERATOR)
    at_auth = api.stranger()
    at_auth.base_url = httpx.URL(AUTH["live"])
    form = {"client_id": till.client.client_id}
    await walk(at_auth, "POST", "/device_authorization", 200, data=form)
    api.live.settings = replace(api.live.settings, client_registration=True)
    await walk(at_auth, "POST", "/register", 201, json={"redirect_uris": [CALLBACK]})


def _successes(described: dict[str, Any]) -> Iterable[tuple[str, str, str]]:
    return (
        (method.upper(), path, status)
        for path, item in described["paths"].items()
        for method, operation in item.items()
        for status in operation["responses"]
        if status < "400"
    )


async def test_refusals_are_as_documented(api: Api, described: dict[str, Any]) -> None:
    walk = Walk(described)
    admin, viewer = await api.caller("admin"), await api.caller("viewer")
    reader = await api.caller("admin", "read")
    poor = await api.caller("viewer", plan="free")
    product = (await admin.post("/products", json=PRODUCT)).json()["data"]["id"]
    one = "/products/{id}"
    stale = {"If-Match": '"0"'}

    await walk(admin, "GET", "/products", 400, params={"limit": 101})
    await walk(admin, "POST", "/products", 400, content=b"{", headers=JSON)
    await walk(api.stranger(), "GET", "/products", 401)
    await walk(viewer, "POST", "/products", 403, json=PRODUCT)
    await walk(reader, "PATCH", "/users/me", 403, json={})
    await walk(reader, "POST", "/api-keys/rotate", 403)
    await walk(admin, "GET", one, 404, id=0)
    await walk(admin, "GET", "/users", 406, headers={"accept": "text/html"})
    await walk(admin, "POST", "/users", 409, json={**USER, "email": viewer.user.email})
    await walk(
        admin, "PATCH", "/users/{id}", 409, id=viewer.user.id, json={"email": admin.user.email}
    )
    await admin.delete(f"/users/{reader.user.id}")
    await walk(admin, "DELETE", "/users/{id}", 409, id=admin.user.id)
    await walk(admin, "POST", "/api-keys/rotate", 201)
    await walk(admin, "POST", "/api-keys/rotate", 409)
    await walk(admin, "PATCH", one, 412, id=product, json={"price": 1}, headers=stale)
    await walk(admin, "DELETE", one, 412, id=product, headers=stale)
    await walk(admin, "POST", "/products", 413, content=b" " * 2**21, headers=JSON)
    await walk(admin, "POST", "/products", 415, content=b"{}", headers={"content-type": "a/b"})
    await walk(admin, "POST", "/products", 422, json={**PRODUCT, "price": -1})
    for _ in range(30):
        await poor.get("/users/me")
    await walk(poor, "GET", "/users/me", 429)


async def test_refusals_of_signing_in_are_as_documented(
    api: Api, described: dict[str, Any]
) -> None:
    walk = Walk(described)
    ada = await api.account("editor", password=PASSWORD)
    registered = await client_of(api.live, ada)
    at_auth, stranger = api.stranger("192.0.2.1:1"), api.stranger("192.0.2.2:1")
    at_auth.base_url = httpx.URL(AUTH["live"])
    wrong = {"email": ada.email, "password": "wrong"}
    foreign = {"origin": "https://evil.example"}
    for client, path in ((at_auth, "/login"), (stranger, "/sessions")):
        await walk(client, "POST", path, 401, json=wrong)
        await walk(client, "POST", path, 403, json=wrong, headers=foreign)
        await walk(client, "POST", path, 400, json={})
    await walk(at_auth, "POST", "/refresh", 401, json={"refresh_token": "ort_x"})
    await walk(await api.caller(), "DELETE", "/sessions", 403)
    grant = {"grant_type": "password", "client_id": registered.client.client_id}
    await walk(at_auth, "POST", "/token", 401, data=grant)
    grant["client_secret"] = registered.secret or ""
    await walk(at_auth, "POST", "/token", 400, data=grant)
    await walk(at_auth, "POST", "/revoke", 415, content=b"")
    await walk(at_auth, "POST", "/introspect", 413, data={"token": "x" * 2**17})
    await walk(at_auth, "GET", "/.well-known/jwks.json", 406, headers={"accept": "text/html"})
    while (await at_auth.post("/revoke")).status_code != 429:
        pass
    await walk(at_auth, "POST", "/revoke", 429)
    await walk(at_auth, "GET", "/.well-known/jwks.json", 429)


async def test_an_outage_is_as_documented(tmp_path: Path, described: dict[str, Any]) -> None:
    nobody = {"PORTICO_VALKEY_URL": f"redis://127.0.0.1:{free_port()}/0"}
    async with Api(settings_for(tmp_path, nobody)) as api:
        answer = await Walk(described)(await api.caller(), "GET", "/users", 503)
        assert "x-ratelimit-limit" not in answer.headers
