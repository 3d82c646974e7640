"""The cases that every client keeps, see clients/cases: both faces of this one."""

import asyncio
import inspect
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

import portico_client
from client.scripted import KEY, PLACE, Scripted, table
from portico_client import AsyncClient, Client

CALLS = table("calls.json")
DATA: dict[str, Any] = CALLS["data"]


def fault(kind: str) -> httpx.RequestError:
    """A fault of the connection, as httpx tells of it."""
    if kind == "lost":
        return httpx.ReadError(kind)
    error = httpx.ConnectError(kind)
    if kind == "untrusted":
        error.__cause__ = ssl.SSLCertVerificationError(kind)
        error.__cause__.verify_message = kind
    return error


def comes(step: Any) -> Any:
    """What comes of a request."""
    if "fault" in step:
        return fault(step["fault"])
    told: Any = step.get("body", {"data": DATA.get(step.get("data"))})
    if "code" in step:
        told = {"error": {"code": step["code"], "message": "No.", "details": []}}
    text = step.get("text", json.dumps(told))
    return lambda _: httpx.Response(step["status"], headers=step.get("headers"), text=text)


@dataclass(frozen=True)
class Face:
    """One of the library's faces: how to make its things, and how to have what they give."""

    name: str
    client: Callable[..., Any]
    slept: Callable[[list[float]], Callable[[float], Any]]


def noting(waits: list[float]) -> Callable[[float], Any]:
    """How an asynchronous client waits: it only notes how long."""

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    return sleep


BLOCKING = Face("blocking", Client, lambda waits: waits.append)
ASYNCIO = Face("asyncio", AsyncClient, noting)
FACES = pytest.mark.parametrize("face", [BLOCKING, ASYNCIO], ids=lambda face: face.name)


def had(given: Any) -> Any:
    """What a call gives, awaited where that is needed."""

    async def waited() -> Any:
        return await given

    return asyncio.run(waited()) if inspect.isawaitable(given) else given


def keeps(act: Callable[[], Any], outcome: Any) -> Any:
    """What is given, or None where what must be raised was."""
    if "error" not in outcome:
        return act()
    kind = getattr(portico_client, outcome["error"])
    with pytest.raises(kind) as raised:
        act()
    assert type(raised.value) is kind
    for name, value in outcome.items():
        if name != "error":
            assert getattr(raised.value, name) == value, name
    return None


def made(client: Any, call: Any) -> Any:
    """A call of a table."""
    noun, verb = call["do"].split(".")
    options = {name: call[name] for name in ("if_match", "idempotency_key") if name in call}
    ids = [call["id"]] if "id" in call else []
    return getattr(getattr(client, noun), verb)(*ids, **call.get("fields", {}), **options)


def alike(request: httpx.Request) -> tuple[Any, ...]:
    """What must be the same at each attempt."""
    return request.method, request.url, request.headers.raw, request.content


@FACES
@pytest.mark.parametrize(
    ("case", "called"),
    [
        pytest.param(case, called, id=f"{case['name']}: {called}")
        for case in CALLS["cases"]
        for called in case["calls"]
    ],
)
def test_calls(face: Face, case: Any, called: str) -> None:
    call = CALLS["calls"][called]
    deletes = call["do"].endswith("delete")
    done = {"status": 204, "text": ""} if deletes else {"status": 200, "data": "product"}
    script = Scripted(*(comes(done if step == "done" else step) for step in case["steps"]))
    draws = iter(case.get("draws", []))
    waits: list[float] = []
    client = face.client(
        KEY,
        base_url=PLACE,
        transport=script,
        sleep=face.slept(waits),
        random=lambda: next(draws, 0),
        **case.get("options", {}),
    )
    found = keeps(lambda: had(made(client, call)), case["outcome"])
    if case["outcome"] == "done":
        assert found is None if deletes else found.id == 1
    assert len(script.requests) == len(case["steps"])
    assert waits == pytest.approx(case.get("waits", []))
    assert len({str(alike(request)) for request in script.requests}) == 1
    for name, value in case.get("sent", {}).items():
        assert script.requests[0].headers[name] == value


def listed(client: Any, **filters: Any) -> list[int]:
    """The ids of a whole list."""
    listing = client.products.list(**filters)
    if isinstance(client, Client):
        return [one.id for one in listing]

    async def all_of_it() -> list[int]:
        return [one.id async for one in listing]

    return asyncio.run(all_of_it())


@FACES
@pytest.mark.parametrize("case", table("paging.json"), ids=lambda case: case["name"])
def test_paging(face: Face, case: Any) -> None:
    steps = []
    for number, page in zip(case["read"], case["pages"], strict=True):
        counts = {name: page[name] for name in ("total_items", "total_pages")}
        items = [{**DATA["product"], "id": id_} for id_ in page["ids"]]
        body = {"data": items, "pagination": {"page": number, "limit": 2, **counts}}
        steps.append(comes({"status": 200, "body": body}))
    script = Scripted(*steps)
    assert listed(face.client(KEY, base_url=PLACE, transport=script), limit=2) == case["given"]
    read = [dict(request.url.params) for request in script.requests]
    assert read == [{"limit": "2", "page": str(number)} for number in case["read"]]
