"""Addresses, bodies and answers: what must hold for all values."""

import json
import math
import threading
import uuid
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.scripted import CASES, KEY, PLACE, Parts, Scripted, answer
from client.test_client_cases import FACES, Face, had, listed
from client.test_client_retries import PRODUCT
from portico_client import APIError, Client, UnexpectedAnswer
from portico_client.calls import PRODUCTS, query
from portico_client.flow import Response
from portico_client.reading import decode, encode, error_of

texts = st.text(st.characters(codec="utf-8"))
prices = st.decimals(0, Decimal("999999999999.9999"), places=4, allow_nan=False)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | texts | prices,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=8,
)


def received(path: str) -> tuple[str, list[tuple[str, str]]]:
    """Path and parameters as they arrive when httpx sends them."""
    target = httpx.Request("GET", PLACE + path).url.raw_path.decode()
    raw, _, parameters = target.partition("?")
    return raw, parse_qsl(parameters, keep_blank_values=True, strict_parsing=bool(parameters))


@CASES
@given(st.dictionaries(texts.filter(bool), texts))
def test_any_text_arrives_in_the_query_as_it_was(parameters: dict[str, str]) -> None:
    assert received(f"/products{query(parameters)}") == ("/v1/products", list(parameters.items()))


@CASES
@given(price=prices, truth=st.booleans(), page=st.integers(1, 10**9))
def test_numbers_and_truths_arrive_as_the_service_writes_them(
    *, price: Decimal, truth: bool, page: int
) -> None:
    call = PRODUCTS.page({"min_price": price, "in_stock": truth}, page)
    _, parameters = received(call.path)
    sent = dict(parameters)
    assert Decimal(sent["min_price"]) == price
    assert "E" not in sent["min_price"]
    assert (sent["in_stock"], sent["page"]) == (str(truth).lower(), str(page))


@FACES
def test_a_filter_of_none_is_as_if_left_out(face: Face) -> None:
    page = {"page": 1, "limit": 25, "total_items": 0, "total_pages": 0}
    products = answer(200, {"data": [], "pagination": page})
    events = answer(200, {"data": [], "pagination": {**page, "has_more": False, "last_id": 0}})
    script = Scripted(products, products, events)
    client = face.client(KEY, base_url=PLACE, transport=script)
    had(client.products.list(search=None, in_stock=False, min_price=0, limit=None).page(1))
    assert listed(client.products.list(search=None, limit=None)) == []
    assert listed(client.events.list(after=None, type=None, limit=None)) == []
    assert [dict(request.url.params) for request in script.requests] == [
        {"in_stock": "false", "min_price": "0", "page": "1"},
        {"limit": "100"},
        {"limit": "100"},
    ]


@CASES
@given(st.integers(-(10**20), 10**20))
def test_an_id_is_one_part_of_the_path(id_: int) -> None:
    assert received(PRODUCTS.get(id_).path) == (f"/v1/products/{id_}", [])


@pytest.mark.parametrize("wrong", ["1/../users", "1?x=y", "", "17", 1.5, None])
def test_what_is_no_id_is_not_sent(wrong: Any) -> None:
    with pytest.raises(TypeError):
        PRODUCTS.get(wrong)


@pytest.mark.parametrize("wrong", ["", "a\n", "a\nb", " a ", "ключ", "a\0"])
def test_what_no_header_can_hold_is_not_sent(wrong: str) -> None:
    script = Scripted()
    with Client(KEY, base_url=PLACE, transport=script) as client:
        with pytest.raises(ValueError, match="idempotency_key"):
            client.products.create(name="Lamp", category="light", price=1, idempotency_key=wrong)
        with pytest.raises(ValueError, match="if_match"):
            client.products.update(1, price=2, if_match=wrong)
    assert script.requests == []


def test_what_no_address_can_hold_is_not_sent() -> None:
    script = Scripted()
    with (
        Client(KEY, base_url=PLACE, transport=script) as client,
        pytest.raises(ValueError, match="too long"),
    ):
        client.products.list(search="lamp " * 14_000).page(1)
    assert script.requests == []


@CASES
@given(json_values)
def test_a_body_is_the_same_value_once_it_is_read(value: Any) -> None:
    assert json.loads(encode(value), parse_float=Decimal) == value


@CASES
@given(prices)
def test_a_price_keeps_every_digit_both_ways(price: Decimal) -> None:
    sent = encode({"price": price})
    assert "E" not in sent
    assert decode(sent.encode())["price"] == price
    body = json.dumps({"data": {**PRODUCT, "price": 0}}).replace('"price": 0', f'"price": {price}')
    script = Scripted(Response(200, {}, body.encode()))
    with Client(KEY, base_url=PLACE, transport=script) as client:
        assert client.products.get(1).price == price


@pytest.mark.parametrize("wrong", [1.5, math.nan])
def test_what_json_does_not_have_exactly_is_not_sent(wrong: float) -> None:
    with pytest.raises(TypeError, match=r"^send a Decimal or an int, not a float$"):
        encode({"price": wrong})


@pytest.mark.parametrize("wrong", [b"1", {1}, object()])
def test_what_json_does_not_have_at_all_is_told_by_its_type(wrong: object) -> None:
    with pytest.raises(TypeError, match=f"^JSON cannot represent a {type(wrong).__name__}$"):
        encode({"price": wrong})


def test_what_is_no_text_is_no_key_and_no_tag() -> None:
    products: Any = Client(KEY, base_url=PLACE, transport=Scripted()).products
    key = uuid.uuid4()
    with pytest.raises(TypeError, match=r"^idempotency_key must be a text, not a UUID$"):
        products.create(name="Lamp", category="light", price=1, idempotency_key=key)
    with pytest.raises(TypeError, match=r"^if_match must be a text, not a int$"):
        products.delete(1, if_match=3)


def test_a_number_is_written_without_an_exponent() -> None:
    assert encode([Decimal("1E+3"), Decimal("0E-10")]) == "[1000,0.0000000000]"


@pytest.mark.parametrize("wrong", [Decimal("NaN"), Decimal("Infinity")])
def test_what_is_no_number_is_not_sent(wrong: Decimal) -> None:
    with pytest.raises(ValueError, match="not a number"):
        encode(wrong)


def test_fields_of_a_newer_server_are_ignored() -> None:
    newer = {"data": {**PRODUCT, "weight": 3, "images": [{"url": "u", "alt": "a", "w": 1}]}}
    script = Scripted(answer(200, {**newer, "notice": "hello"}, etag='"tag"'))
    with Client(KEY, base_url=PLACE, transport=script) as client:
        product = client.products.get(1)
    assert (product.name, product.etag, product.images[0].url) == ("Lamp", '"tag"', "u")


@pytest.mark.parametrize(
    "content",
    [b"", b"<html>", b"[]", b"\xff", b'{"data": {}}', b'{"data": 1}', b"null", b"[" * 9_000],
)
def test_a_success_that_cannot_be_understood_is_an_error(content: bytes) -> None:
    script = Scripted(Response(200, {"x-request-id": "req_1"}, content))
    with (
        Client(KEY, base_url=PLACE, transport=script) as client,
        pytest.raises(UnexpectedAnswer, match="req_1"),
    ):
        client.products.get(1)


def test_a_success_of_something_else_is_told_as_such() -> None:
    script = Scripted(Response(200, {}, b"<html>"))
    with (
        Client(KEY, base_url=PLACE, transport=script) as client,
        pytest.raises(UnexpectedAnswer, match=r"^the response 200 is not from Portico$"),
    ):
        client.products.get(1)


@CASES
@given(st.integers(300, 599), st.binary() | json_values.map(lambda value: encode(value).encode()))
def test_any_refusal_is_an_error_of_the_tree(status: int, content: bytes) -> None:
    error = error_of(Response(status, {}, content))
    assert isinstance(error, APIError)
    assert error.status == status
    assert str(status) in str(error)


def test_an_error_of_something_in_between_is_printed_without_a_code() -> None:
    error = error_of(Response(502, {}, b"<html>"))
    assert str(error).startswith("502: ")


def test_a_refusal_that_is_nested_too_deeply_is_an_error_of_the_tree() -> None:
    assert error_of(Response(502, {}, b"[" * 9_000)).status == 502


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0060", 60),
        ("00", 0),
        ("9" * 5_000, 999_999_999),
        ("", None),
        ("²", None),
        ("-1", None),
    ],
)
def test_how_long_an_answer_asks_to_wait(header: str, seconds: int | None) -> None:
    assert (seconds or 0) < threading.TIMEOUT_MAX  # for which a thread can wait
    assert error_of(Response(503, {"retry-after": header}, b"")).retry_after == seconds


@FACES
@pytest.mark.parametrize("status", [200, 400])
def test_an_answer_without_an_end_is_not_read_for_ever(face: Face, status: int) -> None:
    endless = Parts(*[bytes(2**24)] * 1000)
    script = Scripted(lambda _: httpx.Response(status, stream=endless))
    client = face.client(KEY, base_url=PLACE, transport=script)
    with pytest.raises(UnexpectedAnswer, match="more than 268435456 bytes"):
        had(client.products.get(1))
    assert endless.closed


def test_a_redirect_is_not_followed() -> None:
    script = Scripted(answer(307, None, location="https://elsewhere.example/"))
    with (
        Client(KEY, base_url=PLACE, transport=script) as client,
        pytest.raises(APIError) as refused,
    ):
        client.me()
    assert refused.value.status == 307
    assert len(script.requests) == 1
