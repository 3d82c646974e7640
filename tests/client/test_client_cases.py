"""The cases that every client keeps, see clients/cases: both faces of this one."""

import asyncio
import json
import ssl
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl, urlencode

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

import portico_client
from client.issuing import key, public
from client.scripted import DATA, FACES, KEY, PLACE, Face, Parts, Scripted, had, listed, table
from portico_client import (
    Authorization,
    Event,
    Login,
    OAuthApp,
    SessionLogin,
    TokenVerifier,
    verify_webhook,
)

CALLS = table("calls.json")


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
        details = step.get("details", [])
        told = {"error": {"code": step["code"], "message": "No.", "details": details}}
    text = step.get("text", json.dumps(told))
    return lambda _: httpx.Response(step["status"], headers=step.get("headers"), text=text)


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
            said = {"message": str(raised.value), **vars(raised.value)}
            assert said[name] == value, name
    return None


def made(client: Any, call: Any) -> Any:
    """A call of a table."""
    noun, verb = call["do"].split(".")
    options = {name: call[name] for name in ("if_match", "idempotency_key") if name in call}
    ids = [call["id"]] if "id" in call else []
    of = client.kind(noun) if call.get("kind") else getattr(client, noun)
    return getattr(of, verb)(*ids, **call.get("fields", {}), **options)


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
def test_calls_are_made_and_repeated_as_the_table_says(face: Face, case: Any, called: str) -> None:
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
        clock=lambda: CALLS["now"],
        **case.get("options", {}),
    )
    found = keeps(lambda: had(made(client, call)), case["outcome"])
    if case["outcome"] == "done":
        assert found is None if deletes else (found["id"] if "kind" in call else found.id) == 1
    assert len(script.requests) == len(case["steps"])
    assert waits == pytest.approx(case.get("waits", []))
    assert len({str(alike(request)) for request in script.requests}) == 1
    for name, value in case.get("sent", {}).items():
        assert script.requests[0].headers[name] == value


@FACES
@pytest.mark.parametrize("case", table("paging.json"), ids=lambda case: case["name"])
def test_lists_are_read_page_by_page_as_the_table_says(face: Face, case: Any) -> None:
    steps = []
    pagination = {"page": 1, "limit": 2, "total_items": 5, "total_pages": 3}
    for page in case["pages"]:
        items = [{**DATA["product"], "id": id_} for id_ in page.get("ids", ())]
        headers = {"link": page["link"] * page.get("times", 1)} if "link" in page else {}
        body = {"data": items, "pagination": pagination}
        steps.append(comes({"status": 200, "headers": headers, "body": body, **page}))
    script = Scripted(*steps)
    client = face.client(KEY, base_url=PLACE, transport=script)
    given = keeps(lambda: listed(client.products.list(limit=2)), case.get("outcome", {}))
    assert given == case.get("given")
    read = [str(request.url) for request in script.requests]
    cursors = [f"&cursor={cursor}" if cursor else "" for cursor in case["read"]]
    assert read == [f"{PLACE}/products?limit=2{cursor}" for cursor in cursors]


SIGNING_IN = table("signing_in.json")
WAYS: dict[str, type[Login] | type[SessionLogin]] = {"login": Login, "session": SessionLogin}


@FACES
@pytest.mark.parametrize(
    ("case", "way"),
    [
        pytest.param(case, way, id=f"{case['name']}: {way}")
        for case in SIGNING_IN["cases"]
        for way in case["ways"]
    ],
)
def test_signing_in_goes_as_the_table_says(face: Face, case: Any, way: str) -> None:
    path, entered = SIGNING_IN["ways"][way]["path"], SIGNING_IN["ways"][way]["in"]
    answers = {**SIGNING_IN["answers"], "in": entered}
    codes = iter(case.get("codes", []))
    otp = (lambda: next(codes)) if "codes" in case else None
    script = Scripted(*(comes(answers[one]) for call in case["calls"] for one in call["steps"]))
    client = face.client(
        auth=WAYS[way]("ada@example.com", "Analytical1", otp),
        base_url=PLACE,
        transport=script,
        sleep=face.slept([]),
    )

    asked = 0
    for call in case["calls"]:
        me = keeps(lambda: had(client.me()), call["outcome"])
        assert call["outcome"] != "done" or me.id == 1
        asked += len(call["steps"])
        assert len(script.requests) == asked
    assert next(codes, None) is None
    sent = [json.loads(one.content) for one in script.requests if one.url.path == path]
    assert [fields.get("otp") for fields in sent] == case["sent"]


CALLBACKS = table("callbacks.json")


@pytest.mark.parametrize("case", CALLBACKS["cases"], ids=lambda case: case["name"])
def test_callbacks_are_taken_or_rejected_as_the_table_says(case: Any) -> None:
    answers = case.get("answers", [])
    script = Scripted(*(comes({"body": CALLBACKS["bought"], **one}) for one in answers))
    app = OAuthApp(
        CALLBACKS["client_id"],
        CALLBACKS["client_secret"],
        redirect_uri=CALLBACKS["redirect_uri"],
        auth_url=CALLBACKS["auth_url"],
        transport=script,
        sleep=lambda _: None,
    )
    sent = whole(CALLBACKS["callback"], case.get("callback", {}))
    url = f"{CALLBACKS['redirect_uri']}?{urlencode(sent)}{case.get('added', '')}"
    begun = Authorization(**{**CALLBACKS["begun"], **case.get("begun", {})})
    tokens = keeps(lambda: app.complete(url, begun), case["outcome"])
    if case["outcome"] == "done":
        assert (tokens.access_token, tokens.refresh_token) == ("a", "r")
    assert len(script.requests) == len(answers)
    for request in script.requests:
        assert request.url == f"{CALLBACKS['auth_url']}/token"
        assert dict(parse_qsl(request.content.decode())) == CALLBACKS["form"]


def whole(base: Any, changes: Any) -> dict[str, Any]:
    """What is changed of it; what is changed to None is left out."""
    return {name: value for name, value in {**base, **changes}.items() if value is not None}


TOKENS = table("tokens.json")


def part(value: Any) -> str:
    """A part of a token."""
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def token_of(facts: Any) -> str:
    """A token as a table describes it, really signed by RS256, whatever it says."""
    if "text" in facts:
        return str(facts["text"])
    long = {"name": "x" * facts["long"]} if "long" in facts else {}
    said = whole(TOKENS["claims"], {**facts.get("claims", {}), **long})
    header = part(whole(TOKENS["header"], facts.get("header", {})))
    own: Any = key(facts.get("key", "one")).get_op_key("sign")
    signed = f"{header}.{part(said)}"
    signature = urlsafe_b64encode(own.sign(signed.encode(), PKCS1v15(), SHA256()))
    if facts.get("unsigned"):
        return f"{signed}."
    payload = part({**said, **facts.get("swap", {})})
    return f"{header}.{payload}.{signature.decode().rstrip('=')}"


@pytest.mark.parametrize("case", TOKENS["cases"], ids=lambda case: case["name"])
def test_tokens_are_believed_or_not_as_the_table_says(case: Any) -> None:
    now, fetched = [float(TOKENS["now"])], 0
    facts: Any = {}
    keys = case.get("published", [{"kid": "one"}, {"kid": "two"}])

    def published(request: httpx.Request) -> httpx.Response:
        nonlocal fetched
        fetched += 1
        assert request.url == f"{TOKENS['issuer']}/.well-known/jwks.json"
        now[0] += facts.get("takes", 0)
        if "away" in facts:
            raise httpx.ConnectError("away")
        if "page" in facts:
            return httpx.Response(200, text=facts["page"])
        return httpx.Response(
            200, json={"keys": [public(**{**one, "name": one["kid"]}) for one in keys]}
        )

    verifier = TokenVerifier(
        TOKENS["issuer"],
        TOKENS["audience"],
        transport=httpx.MockTransport(published),
        clock=lambda: now[0],
        sleep=lambda _: None,
    )
    for facts in case["verifies"]:
        now[0] += facts.get("after", 0)
        fetched, keys = 0, facts.get("published", keys)
        outcome = "done" if "believed" in facts else {"error": facts.get("error", "InvalidToken")}
        token = token_of(facts)
        claims = keeps(partial(verifier.verify, token), outcome)
        if outcome == "done":
            assert (claims.subject, claims.user_id) == ("17", 17)
        assert fetched == facts.get("fetches", 0)


DELIVERIES = table("webhooks.json")


def secret_of(facts: Any) -> str:
    """A secret as a table describes it."""
    if "text" in facts:
        return str(facts["text"])
    key = bytes(range(facts["from"], facts["from"] + facts["bytes"]))
    return f"whsec_{b64encode(key).decode()}"


@pytest.mark.parametrize("case", DELIVERIES["cases"], ids=lambda case: case["name"])
def test_deliveries_are_believed_or_not_as_the_table_says(case: Any) -> None:
    def verified() -> Event:
        return verify_webhook(
            case.get("body", DELIVERIES["body"]).encode(),
            whole(DELIVERIES["headers"], case.get("headers", {})),
            [secret_of(one) for one in case.get("secrets", DELIVERIES["secrets"])],
            case.get("tolerance", 300),
            clock=lambda: DELIVERIES["now"],
        )

    if case["outcome"] == {"error": "argument"}:
        with pytest.raises(ValueError, match="secret") as refused:
            verified()
        for secret in map(secret_of, case["secrets"]):
            assert secret in ("", "whsec_") or secret not in str(refused.value)
        return
    event = keeps(verified, case["outcome"])
    if case["outcome"] == "done":
        expected = case.get("event", DELIVERIES["event"])
        assert (event.id, event.type) == (expected["id"], expected["type"])


def message(part: Any) -> bytes:
    """What a stream sends."""
    if isinstance(part, str):
        return part.encode()
    facts = part if isinstance(part, dict) else {"id": str(part), "event": part}
    told = {"id": facts.get("event", 1), "type": "product.created", "data": DATA["product"]}
    text = json.dumps({**told, "timestamp": "2026-03-15T12:00:00.000Z"})
    return f"id: {facts['id']}\ndata: {text}\n\n".encode()


def streamed(step: Any) -> Any:
    """What comes of a request for a stream."""
    if "sends" not in step:
        return comes(step)
    end = [httpx.ReadError("it broke")] if step.get("broken") else []
    headers = {"content-type": "text/event-stream; charset=utf-8"}
    parts: list[Any] = [*map(message, step["sends"]), *end]
    return lambda _: httpx.Response(200, headers=headers, stream=Parts(*parts))


def take(events: Any, count: int, taken: list[int]) -> None:
    """Takes so many events, and leaves."""
    if hasattr(events, "__iter__"):
        with events:
            taken.extend(one.id for one in islice(events, count))
        return

    async def follow() -> None:
        async with events:
            async for one in events:
                taken.append(one.id)
                if len(taken) == count:
                    return

    asyncio.run(follow())


@FACES
@pytest.mark.parametrize("case", table("streams.json"), ids=lambda case: case["name"])
def test_streams_resume_and_end_as_the_table_says(face: Face, case: Any) -> None:
    script = Scripted(*(streamed(one) for one in case["steps"] for _ in range(one.get("times", 1))))
    waits: list[float] = []
    client = face.client(
        KEY,
        base_url=PLACE,
        transport=script,
        sleep=face.slept(waits),
        random=lambda: 1.0,
        **case.get("options", {}),
    )
    taken: list[int] = []
    count = len(case["told"]) + ("outcome" in case)
    events = client.events.stream(after=case.get("after"))
    keeps(lambda: take(events, count, taken), case.get("outcome", {}))
    assert taken == case["told"]
    assert len(script.requests) == sum(one.get("times", 1) for one in case["steps"])
    asked = [dict(request.headers.raw).get(b"last-event-id") for request in script.requests]
    told = [None if one is None else one.decode() for one in asked]
    assert told == case.get("asked", told)
    assert waits == case.get("waits", waits)
