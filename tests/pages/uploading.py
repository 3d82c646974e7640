"""Files of records that are sent to pages."""

import json
from html import unescape
from typing import Any

import httpx
import msgspec

from driving import Api
from operating import eventually
from pages.visiting import DASHBOARD, ORIGIN, Visitor
from portico.core.audit import OPERATOR
from portico.core.users import User
from portico.features.people.storage import Users
from portico.resource.uploads import ProcessUploads, Upload, Uploads, begin_storing


def lines(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


async def send(
    visitor: Visitor,
    content: bytes,
    name: str = "a.ndjson",
    to: str = "/products/import",
    **fields: str,
) -> httpx.Response:
    """The form with a file, as a browser sends it: in the order of the page."""
    around = {"csrf": visitor.csrf} | fields
    parts: dict[str, Any] = {key: (None, value) for key, value in around.items() if value}
    csrf = parts.pop("csrf", None)
    return await visitor.client.post(
        DASHBOARD + to,
        files=({"csrf": csrf} if csrf else {}) | {"file": (name, content)} | parts,
        headers={"origin": ORIGIN},
    )


async def settled(visitor: Visitor, path: str) -> str:
    """The page of an import once nobody works on it any more."""

    async def shown() -> str:
        page = await visitor.get(path)
        assert page.status_code == 200, page.text
        return "" if "<progress" in page.text else unescape(page.text)

    text: str = await eventually(shown, "the end of the import")
    return text


async def checked(visitor: Visitor, content: bytes, **fields: str) -> tuple[str, str]:
    """The path of an import and its page, once it is checked."""
    answer = await send(visitor, content, **fields)
    assert answer.status_code == 303, answer.text
    path = answer.headers["location"].removeprefix("/dashboard")
    return path, await settled(visitor, path)


def job_of(api: Api) -> ProcessUploads:
    """The job that checks and stores files."""
    return ProcessUploads(api.live, api.live[Users].get)


async def begin(api: Api, user: User, path: str) -> None:
    """Has the products of an import stored, as its sender asks."""
    await begin_storing(api.live, int(path.rpartition("/")[2]), user.id, OPERATOR)


async def leave(api: Api, **values: Any) -> None:
    """Stores how far another process has come with the one import that there is."""
    (before,) = await api.live[Uploads].all()
    async with api.live.db.transaction() as tx:
        await api.live[Uploads].move(tx, before, msgspec.structs.replace(before, **values))


async def ended(api: Api) -> Upload:
    """The one import that there is, once nobody works on it any more."""
    job = job_of(api)

    async def settled() -> Upload | None:
        await job.run()
        (upload,) = await api.live[Uploads].all()
        return None if upload.under_way else upload

    upload: Upload = await eventually(settled, "the end of the import")
    return upload
