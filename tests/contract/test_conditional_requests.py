"""Entity tags, conditions and HEAD (RFC 9110 §8.8, §9.3.2, §13; decisions §7)."""

from itertools import count

import pytest

from driving import Api, Caller, refused
from kinds import KINDS, create

pytestmark = pytest.mark.one_engine

PATHS = [
    *("/users", "/users/me", "/users/{id}"),
    *("/products", "/products/{id}", "/products?search=lamp&limit=1"),
    *("/webhooks", "/webhooks/{id}", "/webhooks/{id}/deliveries"),
    *("/api-keys/{id}", "/events"),
]


NUMBERS = count(1)


async def filled(admin: Caller, path: str) -> str:
    """A path with the id of a new resource, beside which there is another of its kind."""
    kind = "/" + path.split("/")[1].partition("?")[0]
    if kind not in KINDS:
        return path
    await create(admin, kind, next(NUMBERS))
    return path.replace(f"{kind}/{{id}}", await create(admin, kind, next(NUMBERS)))


async def test_reads_answer_head_and_conditions_by_the_present_tag(api: Api) -> None:
    """RFC 9110 §13.1.1 and §13.2.2: `If-Match` first, by the strong comparison."""
    admin = await api.caller("admin")
    for path in [*PATHS, "/openapi.json", "/users/0", "/nowhere"]:
        where = await filled(admin, path)
        first, head = await admin.get(where), await admin.head(where)
        assert (head.status_code, head.content) == (first.status_code, b"")
        for answer in (first, head):
            del answer.headers["x-request-id"]
            answer.headers.pop("x-ratelimit-remaining", None)
        assert head.headers == first.headers
        if first.status_code != 200:
            continue
        tag = first.headers["etag"]
        two_lines = [("if-none-match", '"other"'), ("if-none-match", tag)]
        for known in (tag, f"W/{tag}", f'"a","b" ,W/{tag},"c"', "*", two_lines):
            headers = [("if-none-match", known)] if isinstance(known, str) else known
            again = await admin.get(where, headers=headers)
            assert (again.status_code, again.content) == (304, b""), known
            assert again.headers["etag"] == tag
            assert again.headers["cache-control"] == first.headers["cache-control"]
        for unknown in ('"other"', f'"{tag}"', tag.strip('"'), ""):
            again = await admin.get(where, headers={"if-none-match": unknown})
            assert (again.status_code, again.content) == (200, first.content), unknown
        for known in (tag, f'"other", {tag}', "*"):
            assert (await admin.get(where, headers={"if-match": known})).status_code == 200, known
        for other in ('"other"', f"W/{tag}", tag.strip('"'), ""):
            headers = [("if-match", other), ("if-none-match", tag)]
            refused(await admin.get(where, headers=headers), 412, "PRECONDITION_FAILED")


async def test_creations_changes_and_replays_answer_the_tag_that_reads_show(api: Api) -> None:
    admin = await api.caller("admin")
    for path in KINDS:
        kind, once = KINDS[path], {"idempotency-key": "once"}
        made = await admin.post(path, json=kind.new(0), headers=once)
        replayed = await admin.post(path, json=kind.new(0), headers=once)
        where = f"{path}/{made.json()['data']['id']}"
        tags = [made.headers["etag"]]
        assert (await admin.get(where)).headers["etag"] == replayed.headers["etag"] == tags[-1]
        for change in kind.changes:
            api.clock.advance(seconds=1)
            changed = await admin.patch(where, json=change, headers={"if-match": tags[-1]})
            assert (await admin.get(where)).headers["etag"] == changed.headers["etag"], changed.text
            stale = {"if-match": tags[-1]}
            refused(await admin.patch(where, json=kind.changes[0], headers=stale), 412)
            read = await admin.get(where, headers={"if-none-match": tags[-1]})
            assert read.status_code == 200
            tags.append(changed.headers["etag"])
        assert len({*tags}) == 1 + len(kind.changes)
        for condition in ("if-match", "if-none-match"):
            answer = await admin.delete(f"{path}/999", headers={condition: "*"})
            refused(answer, 404, "RESOURCE_NOT_FOUND")


async def test_a_list_has_another_tag_after_a_change(api: Api) -> None:
    editor = await api.caller("editor")
    product = await api.product()
    for path in ("/products", "/products?search=lamp&limit=1"):
        tags = [(await editor.get(path)).headers["etag"]]
        for price in (2, 3):
            await editor.patch(f"/products/{product.id}", json={"price": price})
            answer = await editor.get(path, headers={"if-none-match": tags[-1]})
            assert answer.status_code == 200
            tags.append(answer.headers["etag"])


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


async def test_a_condition_that_holds_lets_changes_and_deletions_pass(api: Api) -> None:
    admin = await api.caller("admin")
    for path in KINDS:
        for number, headers in enumerate(PASSING):
            where = await create(admin, path, number)
            for change in KINDS[path].changes[:1]:
                sent = await condition_of(admin, where, headers)
                changed = await admin.patch(where, json=change, headers=sent)
                assert changed.status_code == 200, (headers, changed.text)
                assert change.items() <= (await admin.get(where)).json()["data"].items()
            sent = await condition_of(admin, where, headers)
            assert (await admin.delete(where, headers=sent)).status_code == 204, headers


async def test_a_condition_that_fails_refuses_changes_and_deletions(api: Api) -> None:
    admin = await api.caller("admin")
    for path in [*KINDS, "/users/me"]:
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
