"""Values that break a rule are refused with their field, in new resources and in changes (decisions
§6, §7)."""

from typing import Any

import pytest

from driving import Api, refused
from kinds import KINDS, create

pytestmark = pytest.mark.one_engine

RULES: dict[str, list[tuple[str, list[Any]]]] = {
    "/users": [
        ("name", ["x", " x ", "é" * 101, ""]),
        ("email", ["ada", "ada@", "@example.com", "a b@example.com", "ada@example"]),
        ("email", ["a@b@example.com"]),
        ("password", ["Short1a", "lowercase1", "UPPERCASE1", "NoDigitsHere", "Aa1" + "x" * 126]),
        ("password", [""]),
    ],
    "/products": [
        ("name", ["", " \u00a0 ", "x" * 201]),
        ("category", ["", "x" * 101]),
        ("description", ["x" * 10_001]),
        ("price", [-0.0001, 1e12, 1.23456, 1e-5, 1e300]),
        ("currency", ["usd", "ABC"]),
        ("stock_quantity", [-1, 2**31]),
        ("status", ["deleted"]),
        ("images", [[{"url": "https://example.com"}] * 51]),
        ("images.1.url", [[{"url": "https://a.de"}, {"url": "ftp://a.de"}]]),
        ("images.0.alt", [[{"url": "https://a.de", "alt": "x" * 501}]]),
        ("metadata", [{str(number): "" for number in range(51)}, {"": "x"}]),
        ("metadata.k", [{"k": "x" * 1001}]),
    ],
    "/webhooks": [
        ("url", ["http://hooks.example.com/", "https://user:secret@hooks.example.com/"]),
        ("url", ["https://127.0.0.1/", "https://[::ffff:10.0.0.1]/", "https://localhost:8443/"]),
        ("url", ["no url"]),
        ("types", [[]]),
        ("types.0", [["product.sold"], ["product.*,user.*"]]),
        ("types.1", [["product.*", "ping"]]),
        ("description", ["x" * 201]),
    ],
}
"""By the path of a list: the fields that faults name, and values of the first part of each."""


@pytest.mark.parametrize("path", RULES)
async def test_a_broken_rule_is_422_with_its_field_and_changes_nothing(api: Api, path: str) -> None:
    admin = await api.caller("admin")
    where = await create(admin, path)
    async with api.unchanged():
        for field, values in RULES[path]:
            for value in values:
                sent = {field.partition(".")[0]: value}
                for answer in (
                    await admin.post(path, json=KINDS[path].new(1) | sent),
                    await admin.patch(where, json=sent),
                ):
                    found = refused(answer, 422, "VALIDATION_ERROR")
                    assert found.keys() == {field}, value


async def test_a_name_is_trimmed_before_it_is_measured(api: Api) -> None:
    admin = await api.caller("admin")
    longest = "é" * 100
    answer = await admin.post(
        "/users", json=KINDS["/users"].new(1) | {"name": f" \u2003{longest}\n"}
    )
    assert answer.json()["data"]["name"] == longest
