"""Entity tags, conditions and HEAD (RFC 9110 §8.8, §9.3.2, §13; decisions §7)."""

import pytest

from driving import Api, Caller, refused
from kinds import CHANGEABLE, KINDS, create

pytestmark = pytest.mark.one_engine

PATHS = [
    *("/users", "/users/me", "/users/{id}"),
    *("/products", "/products/{id}", "/products?search=lamp&limit=1"),
    *("/webhooks", "/webhooks/{id}", "/webhooks/{id}/deliveries"),
    *("/api-keys", "/api-keys/{id}", "/events"),
]


async def filled(admin: Caller, path: str) -> str:
    """A path with the id of a new resource, beside which there is another of its kind."""
    kind = "/" + path.split("/")[1].partition("?")[0]
    if kind not in KINDS:
        return path
    await create(admin, kind, 1)
    return path.replace(f"{kind}/{{id}}", await create(admin, kind, 2))


@pytest.mark.parametrize("path", PATHS)
async def test_if_none_match_of_the_present_tag_is_304_without_a_body(api: Api, path: str) -> None:
    admin = await api.caller("admin")
    where = await filled(admin, path)
    first = await admin.get(where)
    tag = first.headers["etag"]
    assert tag.startswith('"')
    assert tag.endswith('"')
    assert first.headers["cache-control"] == "private, no-cache"
    two_lines = [("if-none-match", '"other"'), ("if-none-match", tag)]
    for known in (tag, f"W/{tag}", f'"other", {tag}', f'"a","b" ,W/{tag},"c"', "*", two_lines):
        headers = [("if-none-match", known)] if isinstance(known, str) else known
        again = await admin.get(where, headers=headers)
        assert (again.status_code, again.content) == (304, b""), known
        assert again.headers["etag"] == tag
        assert again.headers["cache-control"] == "private, no-cache"
        assert "x-ratelimit-remaining" in again.headers
        assert "x-request-id" in again.headers
    for unknown in ('"other"', f'"{tag}"', tag.strip('"'), ""):
        again = await admin.get(where, headers={"if-none-match": unknown})
        assert (again.status_code, again.content) == (200, first.content), unknown


@pytest.mark.parametrize("path", [*PATHS, "/openapi.json"])
async def test_if_match_of_another_tag_refuses_a_read_before_if_none_match(
    api: Api, path: str
) -> None:
    """RFC 9110 §13.1.1 and §13.2.2: by the strong comparison."""
    admin = await api.caller("admin")
    where = await filled(admin, path)
    for coding in ("identity", "gzip"):
        accepted = {"accept-encoding": coding}
        tag = (await admin.get(where, headers=accepted)).headers["etag"]
        for known in (tag, f'"other", {tag}', "*"):
            assert (await admin.get(where, headers={"if-match": known})).status_code == 200, known
        headers = {"if-match": tag, "if-none-match": tag, **accepted}
        assert (await admin.get(where, headers=headers)).status_code == 304
        for other in ('"other"', f"W/{tag}", tag.strip('"'), ""):
            for more in ({}, {"if-none-match": tag}):
                headers = {"if-match": other, **more, **accepted}
                refused(await admin.get(where, headers=headers), 412, "PRECONDITION_FAILED")
                assert (await admin.head(where, headers=headers)).status_code == 412


@pytest.mark.parametrize("path", [*PATHS, "/users/0", "/nowhere"])
async def test_head_answers_as_get_without_the_body(api: Api, path: str) -> None:
    admin = await api.caller("admin")
    where = await filled(admin, path)
    got, head = await admin.get(where), await admin.head(where)
    assert (head.status_code, head.content) == (got.status_code, b"")
    for answer in (got, head):
        del answer.headers["x-request-id"], answer.headers["x-ratelimit-remaining"]
    assert head.headers == got.headers


@pytest.mark.parametrize("path", KINDS)
async def test_a_condition_on_a_missing_resource_is_404(api: Api, path: str) -> None:
    admin = await api.caller("admin")
    for condition in ("if-match", "if-none-match"):
        for method in ("GET", "PATCH", "DELETE") if path in CHANGEABLE else ("GET", "DELETE"):
            body: dict[str, str] | None = {} if method == "PATCH" else None
            answer = await admin.request(method, f"{path}/999", json=body, headers={condition: "*"})
            refused(answer, 404, "RESOURCE_NOT_FOUND")


@pytest.mark.parametrize("path", KINDS)
async def test_creations_changes_and_replays_answer_the_tag_that_reads_show(
    api: Api, path: str
) -> None:
    admin = await api.caller("admin")
    kind, once = KINDS[path], {"idempotency-key": "once"}
    made = await admin.post(path, json=kind.new(0), headers=once)
    replayed = await admin.post(path, json=kind.new(0), headers=once)
    where = f"{path}/{made.json()['data']['id']}"
    read = await admin.get(where)
    tags = [made.headers["etag"]]
    assert read.headers["etag"] == replayed.headers["etag"] == tags[-1]
    for change in kind.changes:
        api.clock.advance(seconds=1)
        changed = await admin.patch(where, json=change, headers={"if-match": tags[-1]})
        assert changed.status_code == 200, changed.text
        assert (await admin.get(where)).headers["etag"] == changed.headers["etag"]
        stale = {"if-match": tags[-1]}
        refused(await admin.patch(where, json=kind.changes[0], headers=stale), 412)
        read_again = await admin.get(where, headers={"if-none-match": tags[-1]})
        assert read_again.status_code == 200
        tags.append(changed.headers["etag"])
    assert len({*tags}) == 1 + len(kind.changes)


async def test_changing_oneself_answers_the_tag_that_reads_show(api: Api) -> None:
    caller = await api.caller("viewer")
    changed = await caller.patch("/users/me", json={"name": "Ada L."})
    assert (await caller.get("/users/me")).headers["etag"] == changed.headers["etag"]


async def test_rotating_a_webhook_secret_answers_the_tag_that_reads_show(api: Api) -> None:
    admin = await api.caller("admin")
    where = await create(admin, "/webhooks")
    api.clock.advance(seconds=1)
    once = {"idempotency-key": "once"}
    for _ in range(2):
        rotated = await admin.post(f"{where}/rotate-secret", headers=once)
        assert rotated.headers["location"].endswith(f"/v1{where}")
        assert rotated.headers["etag"] == (await admin.get(where)).headers["etag"]
    guard = {"if-match": rotated.headers["etag"]}
    assert (await admin.patch(where, json={"types": ["*"]}, headers=guard)).status_code == 200


@pytest.mark.parametrize("path", ["/products", "/products?search=lamp&limit=1"])
async def test_a_list_has_another_tag_after_a_change(api: Api, path: str) -> None:
    editor = await api.caller("editor")
    product = await api.product()
    tags = [(await editor.get(path)).headers["etag"]]
    for change in ({"price": 2}, {"stock_quantity": 1}, {"name": "Red lamp"}):
        await editor.patch(f"/products/{product.id}", json=change)
        answer = await editor.get(path, headers={"if-none-match": tags[-1]})
        assert answer.status_code == 200
        tags.append(answer.headers["etag"])
    assert len({*tags}) == 4


PASSING = [
    *({"if-match": tag} for tag in ("{tag}", '"other", {tag}', "*", ' "a" ,{tag}')),
    *({"if-none-match": '"other"', **more} for more in ({}, {"if-match": "*"})),
]
OTHER = "The resource has changed;"
NO_STRONG_TAG = "If-Match takes entity tags in quotes,"
FAILING: list[tuple[dict[str, str], str]] = [
    *(({"if-match": tag}, OTHER) for tag in ('"other"', '"a", "b"')),
    *(({"if-match": tag}, NO_STRONG_TAG) for tag in ("W/{tag}", '"other", W/{tag}', "{bare}", "")),
    # RFC 9110 §13.1.2: by the weak comparison, which all codings of an answer pass.
    *(
        ({"if-none-match": tag, **more}, "")
        for tag in ("{tag}", "W/{tag}", '"other", {tag}', "{coded}", "*")
        for more in ({}, {"if-match": "*"})
    ),
]


async def condition_of(admin: Caller, where: str, headers: dict[str, str]) -> dict[str, str]:
    """The headers, with the present tag of a resource."""
    tag = (await admin.get(where)).headers["etag"]
    tags = {"tag": tag, "bare": tag.strip('"'), "coded": f'{tag[:-1]}1f8b"'}
    return {name: value.format(**tags) for name, value in headers.items()}


@pytest.mark.parametrize("path", KINDS)
async def test_a_condition_that_holds_lets_changes_and_deletions_pass(api: Api, path: str) -> None:
    admin = await api.caller("admin")
    for number, headers in enumerate(PASSING):
        where = await create(admin, path, number)
        for change in KINDS[path].changes[:1]:
            sent = await condition_of(admin, where, headers)
            changed = await admin.patch(where, json=change, headers=sent)
            assert changed.status_code == 200, (headers, changed.text)
            assert change.items() <= (await admin.get(where)).json()["data"].items()
        sent = await condition_of(admin, where, headers)
        assert (await admin.delete(where, headers=sent)).status_code == 204, headers


@pytest.mark.parametrize("path", [*KINDS, "/users/me"])
async def test_a_condition_that_fails_refuses_changes_and_deletions(api: Api, path: str) -> None:
    admin = await api.caller("admin")
    where = await create(admin, path) if path in KINDS else path
    changes = KINDS[path].changes[:1] if path in KINDS else ({"name": "Changed"},)
    async with api.unchanged():
        for headers, message in FAILING:
            sent = await condition_of(admin, where, headers)
            answers = [await admin.patch(where, json=body, headers=sent) for body in changes]
            if path in KINDS:
                answers.append(await admin.delete(where, headers=sent))
            for answer in answers:
                refused(answer, 412, "PRECONDITION_FAILED")
                assert answer.json()["error"]["message"].startswith(message), headers


async def test_a_revoked_key_is_not_revoked_by_its_tag_of_before(api: Api) -> None:
    admin = await api.caller("admin")
    where = await create(admin, "/api-keys")
    headers = {"if-match": (await admin.get(where)).headers["etag"]}
    assert (await admin.delete(where, headers=headers)).status_code == 204
    refused(await admin.delete(where, headers=headers), 412, "PRECONDITION_FAILED")
    assert (await admin.delete(where)).status_code == 204
