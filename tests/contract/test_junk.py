"""What junk costs: bodies are small where anyone may send them, and faults are told to a bound."""

import json
from typing import Any

import pytest

from driving import Api, refused
from portico.features.catalogue.rules import MAX_IMAGES
from portico.web.reading import MOST_FAULTS, MOST_VALUES
from portico.web.routing import PUBLIC_BODY_LIMIT
from signing_in import AUTH, Visitor, client_of

pytestmark = pytest.mark.one_engine

V1 = "https://localhost:8443/v1"
LAMP = {"name": "Lamp", "category": "light", "price": 1}


@pytest.mark.parametrize(
    ("url", "body"),
    [
        (f"{AUTH['live']}/login", {"email": "a@example.com", "password": ""}),
        (f"{V1}/sessions", {"email": "a@example.com", "password": ""}),
        (f"{AUTH['live']}/refresh", {"refresh_token": ""}),
    ],
)
async def test_without_a_credential_a_body_has_16_kib(
    api: Api, url: str, body: dict[str, str]
) -> None:
    last = list(body)[-1]
    fits = {**body, last: "x" * (PUBLIC_BODY_LIMIT - len(json.dumps(body)))}
    refused(await Visitor(api).send("POST", url, fits), 401)
    refused(await Visitor(api).send("POST", url, {**fits, last: fits[last] + "x"}), 413)


@pytest.mark.parametrize("endpoint", ["token", "revoke", "introspect"])
async def test_an_oauth_client_has_16_kib(api: Api, endpoint: str) -> None:
    shop = await client_of(api.live, await api.account())
    named = {"client_id": shop.client.client_id, "client_secret": shop.secret or ""}
    answer = await Visitor(api).form(endpoint, {**named, "token": "x" * PUBLIC_BODY_LIMIT})
    assert answer.status_code == 413


async def test_a_public_page_has_16_kib(api: Api) -> None:
    url = "https://localhost:8443/dashboard/sign-in"
    answer = await Visitor(api).send("POST", url, {"email": "x" * PUBLIC_BODY_LIMIT})
    assert answer.status_code == 413


async def test_an_answer_has_at_most_a_hundred_faults(api: Api) -> None:
    editor = await api.caller("editor")
    junk = {f"field{number}": number for number in range(MOST_VALUES - 10)}
    names = {str(number): number for number in range(50)}
    images = [{str(number): 1 for number in range(20)}] * 20
    async with api.unchanged():
        for body in (junk, junk | LAMP, LAMP | {"images": images, "metadata": names}):
            answer = await editor.post("/products", json=body)
            faults = answer.json()["error"]["details"]
            refused(answer, 400)
            assert len(faults) == MOST_FAULTS
            assert len(answer.content) < 16_384
        query = "&".join(f"field{number}=1" for number in range(1_000))
        answer = await editor.get(f"/products?{query}")
        refused(answer, 400)
        assert len(answer.json()["error"]["details"]) == MOST_FAULTS


async def test_faults_of_form_come_before_broken_rules_in_a_long_list(api: Api) -> None:
    editor = await api.caller("editor")
    images = [{"url": "no address", "alt": "x" * 5_000}] * 20
    answer = await editor.post("/products", json={"images": images, "price": -1, "stock": 1})
    faults = refused(answer, 400)
    assert {"name", "category", "stock"} < set(faults)


@pytest.mark.parametrize(
    "junk",
    [
        "[" + ",".join(["[]"] * 300_000) + "]",
        "[" + ",".join(["{}"] * 300_000) + "]",
        '["' + '","'.join(["\\\\"] * 150_000) + '"]',
        '["\\"",' + ",".join(["1"] * 400_000) + "]",
    ],
)
async def test_a_crowded_body_is_refused_unread(api: Api, junk: str) -> None:
    editor = await api.caller("editor")
    content = '{"name":' + junk + "}"
    answer = await editor.post(
        "/products", content=content, headers={"content-type": "application/json"}
    )
    assert refused(answer, 400) == {"body": f"The JSON has more than {MOST_VALUES} values."}


async def test_punctuation_within_texts_does_not_make_a_body_crowded(api: Api) -> None:
    editor = await api.caller("editor")
    texts = {f"n{number}": '\\",[{' * 80 for number in range(50)}
    body = LAMP | {"description": ',[{"\\' * 2_000, "metadata": texts}
    padded = json.dumps(body) + " " * 65_536
    answer = await editor.post(
        "/products", content=padded, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize(
    ("field", "value", "wrong"),
    [
        ("metadata", {str(number): 5 for number in range(51)}, "metadata.50"),
        ("images", [5] * (MAX_IMAGES + 1), f"images.{MAX_IMAGES}"),
    ],
)
async def test_a_value_too_long_is_answered_with_the_faults_inside(
    api: Api, field: str, value: Any, wrong: str
) -> None:
    editor = await api.caller("editor")
    body = {"name": "Lamp", "category": "lighting", "price": 1, field: value}
    faults = refused(await editor.post("/products", json=body), 400, "VALIDATION_ERROR")
    assert "at most" in faults[field]
    assert wrong in faults
