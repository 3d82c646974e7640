"""Real answers conform to the document, to the last header and field."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx

from conformance import Conformance
from driving import Api, settings_for
from operating import free_port

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
        id: int = 0,  # noqa: A002 - the name of the path's parameter
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
        await walk(admin, "DELETE", one, 204, id=made, headers={"If-Match": "*"})
    me = await walk(admin, "GET", "/users/me", 200)
    await walk(admin, "GET", "/users/me", 304, headers={"If-None-Match": me.headers["etag"]})
    await walk(admin, "PATCH", "/users/me", 200, json={"avatar_url": None})
    await walk(admin, "POST", "/api-keys/rotate", 201)
    assert walk.conformance.seen == set(_successes(described))


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


async def test_an_outage_is_as_documented(tmp_path: Path, described: dict[str, Any]) -> None:
    nobody = {"PORTICO_VALKEY_URL": f"redis://127.0.0.1:{free_port()}/0"}
    api = Api(settings_for(tmp_path, nobody))
    await api.start()
    try:
        answer = await Walk(described)(await api.caller(), "GET", "/users", 503)
        assert "x-ratelimit-limit" not in answer.headers
    finally:
        await api.aclose()
        await api.stop()
