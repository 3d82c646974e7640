"""The page of requests, and the overview's pictures of them."""

import re
from html import unescape

from driving import Api
from pages.visiting import Visitor, signed_in
from portico.core.users import User
from portico.features.operations.storing import StoreRequests

ME = "GET /v1/users/me"


async def store(api: Api) -> None:
    """Stores what was counted until now."""
    for env in api.portico.environments:
        await StoreRequests(env, api.portico.random(8).hex()).run()


async def asked(api: Api, user: User, *paths: str) -> list[str]:
    """Somebody's key asks for these; the request ids."""
    caller = await api.caller(user=user)
    answers = [await caller.get(path) for path in paths]
    await store(api)
    return [answer.headers["x-request-id"] for answer in answers]


def table(text: str, title: str) -> dict[str, tuple[str, ...]]:
    """The lines of a table of sums: the numbers of requests, failed and refused ones."""
    found = re.search(
        rf'<table class="sums" aria-labelledby="{title}">(.*?)</table>', text, re.DOTALL
    )
    rows = re.findall(r"<tr[ >].*?</tr>", found[1].split("<tbody>")[1], re.DOTALL) if found else []
    lines = {}
    for row in rows:
        name, *numbers = re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, re.DOTALL)
        link = re.search(r"<a .*?>(.*?)</a>", name, re.DOTALL)
        assert link
        lines[unescape(re.sub(r"<small>.*</small>|<.*?>", "", link[1]))] = tuple(numbers)
    return lines


def failures(text: str) -> list[str]:
    """The request ids of the failed requests."""
    return re.findall(r'<code class="key">(req_\w+)</code>', text)


async def link(somebody: Visitor, text: str, words: str) -> str:
    """The page behind a line of a table."""
    (path,) = re.findall(rf'<a href="/dashboard(/requests\?[^"]*)"[^>]*>(?:<code>)?{words}<', text)
    return (await somebody.get(unescape(path))).text


async def test_user_sees_own_requests_alone(api: Api) -> None:
    user, somebody = await signed_in(api)
    other = await api.account()
    ids = await asked(api, user, "/users/me", "/users/me", "/users/999999999", "/nothing")
    await asked(api, other, "/products", "/users/999999999")
    for path in ("/requests", f"/requests?account={other.id}", f"/requests?account={other.email}"):
        page = (await somebody.get(path)).text
        assert table(page, "by-route") == {
            ME: ("2", "0", "0"),
            "GET /v1/users/{id}": ("1", "1", "0"),
            "Unknown path or method": ("1", "1", "0"),
        }
        assert table(page, "by-status") == {
            "200 OK": ("2", "0", "0"),
            "404 Not Found": ("2", "2", "0"),
        }
        assert table(page, "by-key") == {"A key": ("4", "2", "0")}
        assert failures(page) == [ids[3], ids[2]]
        assert "RESOURCE_NOT_FOUND" in page
        assert "/nothing" not in page
        assert other.email not in page.replace("<wbr>", "")
        assert 'id="by-account"' not in page


async def test_admin_sees_requests_of_all_accounts_and_of_one(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    one, other = await api.account(), await api.account("admin")
    (first,) = await asked(api, one, "/users/999999999")
    (second,) = await asked(api, other, "/products/999999999")
    await api.stranger().get("/users")
    await store(api)
    page = (await admin.get("/requests")).text
    assert table(page, "by-account") == {
        one.name: ("1", "1", "0"),
        other.name: ("1", "1", "0"),
        "No account": ("1", "1", "0"),
    }
    assert failures(page) == [second, first]
    told = page.replace("<wbr>", "")
    assert told.count(one.email) == told.count(other.email) == 2
    for shown in (
        await link(admin, page, one.name),
        (await admin.get(f"/requests?account={one.email.upper()}")).text,
        (await admin.get(f"/requests?account={one.id}&key=&route=&status=")).text,
    ):
        assert table(shown, "by-route") == {"GET /v1/users/{id}": ("1", "1", "0")}
        assert failures(shown) == [first]
        assert other.email not in shown.replace("<wbr>", "")
    nobody = await link(admin, page, "No account")
    assert table(nobody, "by-route") == {"GET /v1/users": ("1", "1", "0")}
    assert failures(nobody) == []


async def test_requests_are_listed_in_their_environment_alone(api: Api) -> None:
    user, somebody = await signed_in(api, "editor")
    caller = await api.caller(key_type="test", user=user)
    await caller.get("/users/999999999")
    await store(api)
    assert failures((await somebody.get("/requests")).text) == []
    page = (await somebody.get("/sandbox/requests")).text
    assert len(failures(page)) == 1
    assert table(page, "by-key") == {"A key": ("1", "1", "0")}


async def test_senseless_request_filters_are_harmless(api: Api) -> None:
    user, somebody = await signed_in(api, "admin")
    await asked(api, user, "/users/999999999")
    for query in (
        "route=<script>",
        "status=9999999999999999",
        f"account={user.id}&key=999999999999999999",
        "span=years&status=-1&key=x&account=%20",
    ):
        answer = await somebody.get(f"/requests?{query}")
        assert answer.status_code == 200, query
        assert "<script>" not in answer.text.partition("<main")[2]
