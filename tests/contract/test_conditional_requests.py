"""Entity tags, conditions and HEAD (RFC 9110 §8.8, §9.3.2, §13; decisions §7)."""

import asyncio

import pytest

from driving import Api, Caller, refused

PATHS = ["/users", "/users/me", "/users/{user}", "/products", "/products/{product}"]
SEARCH = "/products?search=lamp&limit=1"


async def place(api: Api, path: str, user: int) -> str:
    product = await api.product()
    return path.format(user=user, product=product.id)


@pytest.mark.parametrize("path", [*PATHS, SEARCH])
async def test_what_was_read_before_is_not_sent_again(api: Api, path: str) -> None:
    caller = await api.caller("viewer")
    where = await place(api, path, caller.user.id)
    first = await caller.get(where)
    tag = first.headers["etag"]
    assert tag.startswith('"')
    assert tag.endswith('"')
    assert first.headers["cache-control"] == "private, no-cache"
    for known in (tag, f"W/{tag}", f'"other", {tag}', f'"a","b" ,W/{tag},"c"', "*"):
        again = await caller.get(where, headers={"if-none-match": known})
        assert (again.status_code, again.content) == (304, b""), known
        assert again.headers["etag"] == tag
        assert again.headers["cache-control"] == "private, no-cache"
        assert "x-ratelimit-remaining" in again.headers
        assert "x-request-id" in again.headers
    for unknown in ('"other"', f'"{tag}"', tag.strip('"'), ""):
        again = await caller.get(where, headers={"if-none-match": unknown})
        assert (again.status_code, again.content) == (200, first.content), unknown


@pytest.mark.parametrize("path", [*PATHS, SEARCH, "/openapi.json"])
async def test_who_reads_only_what_they_know_is_told_where_it_is_another(
    api: Api, path: str
) -> None:
    """RFC 9110 §13.1.1 and §13.2.2: before `If-None-Match`, and by the strong comparison."""
    caller = await api.caller("viewer")
    where = await place(api, path, caller.user.id)
    for coding in ("identity", "gzip"):
        accepted = {"accept-encoding": coding}
        tag = (await caller.get(where, headers=accepted)).headers["etag"]
        for known in (tag, f'"other", {tag}', "*"):
            assert (await caller.get(where, headers={"if-match": known})).status_code == 200, known
        headers = {"if-match": tag, "if-none-match": tag, **accepted}
        assert (await caller.get(where, headers=headers)).status_code == 304
        for other in ('"other"', f"W/{tag}", tag.strip('"'), ""):
            for more in ({}, {"if-none-match": tag}):
                headers = {"if-match": other, **more, **accepted}
                refused(await caller.get(where, headers=headers), 412, "PRECONDITION_FAILED")
                assert (await caller.head(where, headers=headers)).status_code == 412


async def test_a_condition_does_not_make_another_answer_of_what_is_not_there(api: Api) -> None:
    caller = await api.caller("viewer")
    for condition in ("if-match", "if-none-match"):
        nothing = await caller.get("/products/1", headers={condition: "*"})
        refused(nothing, 404, "RESOURCE_NOT_FOUND")


WEBHOOK = {"url": "https://shop.example/hook", "types": ["product.*"]}
USER = {"name": "Ada", "email": "ada@shop.example", "password": "Analytical1", "role": "viewer"}
MADE = {
    "/products": ({"name": "Lamp", "category": "lighting", "price": 1}, {"price": 2}),
    "/users": (USER, {"name": "Ada L."}),
    "/webhooks": (WEBHOOK, {"types": ["*"]}),
}


@pytest.mark.parametrize("path", MADE)
async def test_what_makes_or_changes_a_resource_tells_the_tag_that_it_has_then(
    api: Api, path: str
) -> None:
    admin = await api.caller("admin")
    new, change = MADE[path]
    made = await admin.post(path, json=new, headers={"idempotency-key": "once"})
    where = f"{path}/{made.json()['data']['id']}"
    assert (await admin.get(where)).headers["etag"] == made.headers["etag"]
    again = await admin.post(path, json=new, headers={"idempotency-key": "once"})
    assert again.headers["etag"] == made.headers["etag"]
    guard = {"if-match": made.headers["etag"]}
    changed = await admin.patch(where, json=change, headers=guard)
    assert changed.status_code == 200
    assert changed.headers["etag"] != made.headers["etag"]
    assert (await admin.get(where)).headers["etag"] == changed.headers["etag"]
    assert (await admin.patch(where, json=change, headers=guard)).status_code == 412


async def test_changing_oneself_and_making_a_key_tell_a_tag_too(api: Api) -> None:
    caller = await api.caller("admin")
    changed = await caller.patch("/users/me", json={"name": "Ada L."})
    assert (await caller.get("/users/me")).headers["etag"] == changed.headers["etag"]
    made = await caller.post("/api-keys", json={"name": "till", "type": "live"})
    where = f"/api-keys/{made.json()['data']['id']}"
    assert (await caller.get(where)).headers["etag"] == made.headers["etag"]


async def test_giving_a_webhook_another_secret_tells_the_tag_that_it_has_then(api: Api) -> None:
    admin = await api.caller("admin")
    made = await admin.post("/webhooks", json=WEBHOOK)
    where = f"/webhooks/{made.json()['data']['id']}"
    api.clock.advance(seconds=1)
    rotated = await admin.post(f"{where}/rotate-secret", headers={"idempotency-key": "once"})
    again = await admin.post(f"{where}/rotate-secret", headers={"idempotency-key": "once"})
    for answer in (rotated, again):
        assert answer.headers["location"] == made.headers["location"]
        assert answer.headers["etag"] == (await admin.get(where)).headers["etag"]
    guard = {"if-match": rotated.headers["etag"]}
    assert (await admin.patch(where, json={"types": ["*"]}, headers=guard)).status_code == 200


async def test_tags_in_several_header_lines_are_one_list(api: Api) -> None:
    caller = await api.caller("viewer")
    tag = (await caller.get("/users/me")).headers["etag"]
    lines = [("if-none-match", '"other"'), ("if-none-match", tag)]
    assert (await caller.get("/users/me", headers=lines)).status_code == 304


@pytest.mark.parametrize("path", ["/products", "/products/{product}", SEARCH])
async def test_a_change_changes_the_tag(api: Api, path: str) -> None:
    editor = await api.caller("editor")
    product = await api.product()
    where = path.format(product=product.id)
    tags = [(await editor.get(where)).headers["etag"]]
    for change in ({"price": 2}, {"stock_quantity": 1}, {"name": "Red lamp"}):
        await editor.patch(f"/products/{product.id}", json=change)
        answer = await editor.get(where, headers={"if-none-match": tags[-1]})
        assert answer.status_code == 200
        tags.append(answer.headers["etag"])
    assert len(set(tags)) == 4


@pytest.mark.parametrize("path", [*PATHS, SEARCH, "/users/0", "/nowhere"])
async def test_head_answers_as_get_without_the_body(api: Api, path: str) -> None:
    caller = await api.caller("viewer")
    where = await place(api, path, caller.user.id)
    got, head = await caller.get(where), await caller.head(where)
    assert (head.status_code, head.content) == (got.status_code, b"")
    volatile = {"x-request-id", "x-ratelimit-remaining"}
    shown = [
        {name: value for name, value in answer.headers.items() if name not in volatile}
        for answer in (got, head)
    ]
    assert shown[0] == shown[1]


@pytest.mark.parametrize("condition", ["{tag}", '"other", {tag}', "*", ' "a" ,{tag}'])
async def test_the_present_tag_lets_a_change_pass(api: Api, condition: str) -> None:
    admin = await api.caller("admin")
    product = await api.product()
    user = await api.account()
    for where in (f"/products/{product.id}", f"/users/{user.id}", "/users/me"):
        tag = (await admin.get(where)).headers["etag"]
        headers = {"if-match": condition.format(tag=tag)}
        answer = await admin.patch(where, json={"name": "Changed"}, headers=headers)
        assert answer.status_code == 200
        assert (await admin.get(where)).json()["data"]["name"] == "Changed"


CHANGED = "The resource has changed;"
NO_STRONG_TAG = "If-Match takes entity tags in quotes,"


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ('"other"', CHANGED),
        ('"a", "b"', CHANGED),
        ("W/{tag}", NO_STRONG_TAG),
        ('"other", W/{tag}', NO_STRONG_TAG),
        ("{bare}", NO_STRONG_TAG),
        ("", NO_STRONG_TAG),
    ],
)
async def test_a_condition_that_fails_changes_nothing_and_is_told_why(
    api: Api, condition: str, told: str
) -> None:
    admin = await api.caller("admin")
    product = await api.product()
    user = await api.account()
    async with api.unchanged():
        for where in (f"/products/{product.id}", f"/users/{user.id}", "/users/me"):
            tag = (await admin.get(where)).headers["etag"]
            headers = {"if-match": condition.format(tag=tag, bare=tag.strip('"'))}
            changed = await admin.patch(where, json={"name": "Changed"}, headers=headers)
            refused(changed, 412, "PRECONDITION_FAILED")
            assert changed.json()["error"]["message"].startswith(told)
            if where != "/users/me":
                refused(await admin.delete(where, headers=headers), 412, "PRECONDITION_FAILED")


@pytest.mark.parametrize("condition", ["{tag}", "W/{tag}", '"other", {tag}', "{coded}", "*"])
@pytest.mark.parametrize("match", [{}, {"if-match": "*"}])
async def test_a_change_of_anything_but_what_is_there_changes_nothing(
    api: Api, condition: str, match: dict[str, str]
) -> None:
    """RFC 9110 §13.1.2: `If-None-Match` keeps a change from what it names, by the weak
    comparison."""
    admin = await api.caller("admin")
    places = [f"/products/{(await api.product()).id}", f"/users/{(await api.account()).id}"]
    places += ["/users/me", await made(admin, "webhooks")]
    async with api.unchanged():
        for where in places:
            tag = (await admin.get(where)).headers["etag"]
            named = condition.format(tag=tag, coded=f'{tag[:-1]}1f8b"')
            headers = {"if-none-match": named, **match}
            change = {"description": ""} if "webhooks" in where else {"name": "Changed"}
            changed = await admin.patch(where, json=change, headers=headers)
            refused(changed, 412, "PRECONDITION_FAILED")
            if where != "/users/me":
                refused(await admin.delete(where, headers=headers), 412, "PRECONDITION_FAILED")
    for where in places[:2]:
        headers = {"if-none-match": '"other"', **match}
        assert (await admin.delete(where, headers=headers)).status_code == 204
        refused(await admin.delete(where, headers=headers), 404, "RESOURCE_NOT_FOUND")


async def test_of_concurrent_changes_with_one_tag_exactly_one_passes(api: Api) -> None:
    admin = await api.caller("admin")
    product = await api.product()
    user = await api.account()
    for where in (f"/products/{product.id}", f"/users/{user.id}"):
        headers = {"if-match": (await admin.get(where)).headers["etag"]}
        answers = await asyncio.gather(
            *(
                admin.patch(where, json={"name": f"Name {number}"}, headers=headers)
                for number in range(10)
            )
        )
        assert sorted(answer.status_code for answer in answers) == [200] + [412] * 9
        winner = next(answer for answer in answers if answer.status_code == 200)
        assert (await admin.get(where)).json() == winner.json()


async def test_a_deletion_with_the_right_tag_passes(api: Api) -> None:
    editor = await api.caller("editor")
    product = await api.product()
    where = f"/products/{product.id}"
    headers = {"if-match": (await editor.get(where)).headers["etag"]}
    assert (await editor.delete(where, headers=headers)).status_code == 204
    refused(await editor.delete(where, headers=headers), 404, "RESOURCE_NOT_FOUND")


async def made(admin: Caller, kind: str) -> str:
    """The path of a new webhook or API key."""
    webhook = {"url": "https://receiver.example/", "types": ["*"]}
    key = {"name": "Theirs", "type": "live"}
    answer = await admin.post(f"/{kind}", json=webhook if kind == "webhooks" else key)
    assert answer.status_code == 201
    return f"/{kind}/{answer.json()['data']['id']}"


@pytest.mark.parametrize("kind", ["webhooks", "api-keys"])
async def test_webhooks_and_keys_go_with_the_present_tag_alone(api: Api, kind: str) -> None:
    admin = await api.caller("admin")
    where = await made(admin, kind)
    tag = (await admin.get(where)).headers["etag"]
    async with api.unchanged():
        refused(await admin.delete(where, headers={"if-match": '"other"'}), 412)
    assert (await admin.delete(where, headers={"if-match": tag})).status_code == 204


async def test_of_concurrent_changes_of_a_webhook_exactly_one_passes(api: Api) -> None:
    admin = await api.caller("admin")
    where = await made(admin, "webhooks")
    headers = {"if-match": (await admin.get(where)).headers["etag"]}
    answers = await asyncio.gather(
        *(
            admin.patch(where, json={"description": f"No. {number}"}, headers=headers)
            for number in range(10)
        )
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 9


async def test_a_revoked_key_is_not_revoked_by_its_tag_of_before(api: Api) -> None:
    admin = await api.caller("admin")
    where = await made(admin, "api-keys")
    headers = {"if-match": (await admin.get(where)).headers["etag"]}
    assert (await admin.delete(where, headers=headers)).status_code == 204
    refused(await admin.delete(where, headers=headers), 412, "PRECONDITION_FAILED")
    assert (await admin.delete(where)).status_code == 204
