"""What junk costs: bodies are small where anyone may send them, and faults are told to a bound."""

import json

import pytest

from driving import Api, refused
from portico.features.catalogue.rules import MAX_IMAGES
from portico.web.reading import MOST_FAULTS, MOST_VALUES
from portico.web.routing import PUBLIC_BODY_LIMIT
from signing_in import AUTH, Visitor, client_of, named

pytestmark = pytest.mark.one_engine

HERE = "https://localhost:8443"
LAMP = {"name": "Lamp", "category": "light", "price": 1}
JSON = {"content-type": "application/json"}


async def test_without_a_credential_a_body_has_16_kib(api: Api) -> None:
    password = {"email": "a@example.com", "password": ""}
    for url, body in (
        (f"{AUTH['live']}/login", password),
        (f"{HERE}/v1/sessions", password),
        (f"{AUTH['live']}/refresh", {"refresh_token": ""}),
    ):
        last = list(body)[-1]
        fits = {**body, last: "x" * (PUBLIC_BODY_LIMIT - len(json.dumps(body)))}
        refused(await Visitor(api).send("POST", url, fits), 401)
        refused(await Visitor(api).send("POST", url, {**fits, last: fits[last] + "x"}), 413)
    huge = {"token": "x" * PUBLIC_BODY_LIMIT}
    shop = await client_of(api.live, await api.account())
    for endpoint in ("token", "revoke", "introspect"):
        answer = await Visitor(api).form(endpoint, named(shop) | huge)
        assert answer.status_code == 413
    assert (await Visitor(api).send("POST", f"{HERE}/dashboard/sign-in", huge)).status_code == 413


async def test_an_answer_has_at_most_a_hundred_faults_those_of_form_first(api: Api) -> None:
    editor = await api.caller("editor")
    junk = {f"field{number}": number for number in range(MOST_VALUES - 10)}
    names = {str(number): number for number in range(50)}
    images = [{str(number): 1 for number in range(20)}] * 20
    async with api.unchanged():
        for body in (junk, junk | LAMP, LAMP | {"images": images, "metadata": names}):
            answer = await editor.post("/products", json=body)
            assert len(refused(answer, 400)) == MOST_FAULTS
            assert len(answer.content) < 16_384
        query = "&".join(f"field{number}=1" for number in range(1_000))
        assert len(refused(await editor.get(f"/products?{query}"), 400)) == MOST_FAULTS
        broken = [{"url": "no address", "alt": "x" * 5_000}] * 20
        answer = await editor.post("/products", json={"images": broken, "price": -1, "stock": 1})
        assert {"name", "category", "stock"} < set(refused(answer, 400))


async def test_a_crowded_body_is_refused_unread(api: Api) -> None:
    editor = await api.caller("editor")
    for junk in (
        "[" + ",".join(["[]"] * 300_000) + "]",
        '["' + '","'.join(["\\\\"] * 150_000) + '"]',
        '["\\"",' + ",".join(["1"] * 400_000) + "]",
    ):
        answer = await editor.post("/products", content=f'{{"name":{junk}}}', headers=JSON)
        assert refused(answer, 400) == {"body": f"The JSON has more than {MOST_VALUES} values."}
    texts = {f"n{number}": '\\",[{' * 80 for number in range(50)}  # which only looks crowded
    body = LAMP | {"description": ',[{"\\' * 2_000, "metadata": texts}
    padded = json.dumps(body) + " " * 65_536
    answer = await editor.post("/products", content=padded, headers=JSON)
    assert answer.status_code == 201, answer.text


async def test_a_value_too_long_is_answered_with_the_faults_inside(api: Api) -> None:
    editor = await api.caller("editor")
    for field, value, wrong in (
        ("metadata", {str(number): 5 for number in range(51)}, "metadata.50"),
        ("images", [5] * (MAX_IMAGES + 1), f"images.{MAX_IMAGES}"),
    ):
        faults = refused(await editor.post("/products", json=LAMP | {field: value}), 400)
        assert "at most" in faults[field]
        assert wrong in faults
