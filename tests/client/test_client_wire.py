"""Addresses, bodies and answers: what must hold for all values."""

import json
import math
import threading
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from client.scripted import (
    CASES,
    FACES,
    KEY,
    PLACE,
    PRODUCT,
    Face,
    Parts,
    Scripted,
    answer,
    had,
    listed,
)
from portico_client import APIError, Client, ConnectionFailed, UnexpectedAnswer
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


@CASES
@given(st.dictionaries(texts.filter(bool), texts), prices)
def test_any_text_and_price_arrive_in_the_query_as_they_were(
    parameters: dict[str, str], price: Decimal
) -> None:
    def received(path: str) -> list[tuple[str, str]]:
        target = httpx.Request("GET", PLACE + path).url.raw_path.decode()
        assert target.partition("?")[0] == "/v1/products"
        return parse_qsl(target.partition("?")[2], keep_blank_values=True)

    assert received(f"/products{query(parameters)}") == list(parameters.items())
    sent = dict(received(PRODUCTS.page({"min_price": price, "in_stock": True}, 7).path))
    assert Decimal(sent["min_price"]) == price
    assert "E" not in sent["min_price"]
    assert (sent["in_stock"], sent["page"]) == ("true", "7")


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


CREATE: dict[str, Any] = {"name": "Lamp", "category": "light", "price": 1}
NOT_SENT: list[tuple[Callable[[Any], object], type[Exception], str]] = [
    *((lambda products, wrong=wrong: products.get(wrong), TypeError, "")
      for wrong in ("1/../users", "", "17", 1.5, None)),
    *((lambda products, wrong=wrong: products.create(**CREATE, idempotency_key=wrong), ValueError,
       "idempotency_key") for wrong in ("", "a\nb", " a ", "ключ", "a\0")),
    (lambda products: products.create(**CREATE, idempotency_key=uuid.uuid4()), TypeError,
     "^idempotency_key must be a text, not a UUID$"),
    (lambda products: products.update(1, price=2, if_match="a\n"), ValueError, "if_match"),
    (lambda products: products.delete(1, if_match=3), TypeError, "^if_match must be a text"),
    (lambda products: products.list(search="lamp " * 14_000).page(1), ValueError, "too long"),
    *((lambda products, wrong=wrong: products.update(1, price=wrong), TypeError,
       "^send a Decimal or an int, not a float$") for wrong in (1.5, math.nan)),
    (lambda products: products.update(1, price=b"1"), TypeError, "^JSON cannot represent a bytes$"),
    (lambda products: products.update(1, price=Decimal("NaN")), ValueError, "not a number"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "why"), NOT_SENT)
def test_what_cannot_be_sent_as_it_is_meant_is_not_sent(
    call: Callable[[Any], object], kind: type[Exception], why: str
) -> None:
    script = Scripted()
    with (
        Client(KEY, base_url=PLACE, transport=script) as client,
        pytest.raises(kind, match=why or None),
    ):
        call(client.products)
    assert script.requests == []


@CASES
@given(json_values)
def test_a_body_is_the_same_value_once_it_is_read(value: Any) -> None:
    assert json.loads(encode(value), parse_float=Decimal) == value
    assert encode([Decimal("1E+3"), Decimal("0E-10")]) == "[1000,0.0000000000]"


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


def test_fields_of_a_newer_server_are_ignored() -> None:
    newer = {"data": {**PRODUCT, "weight": 3, "images": [{"url": "u", "alt": "a", "w": 1}]}}
    script = Scripted(answer(200, {**newer, "notice": "hello"}, etag='"tag"'))
    with Client(KEY, base_url=PLACE, transport=script) as client:
        product = client.products.get(1)
    assert (product.name, product.etag, product.images[0].url) == ("Lamp", '"tag"', "u")


@CASES
@example(502, b"[" * 9_000)
@given(st.integers(300, 599), st.binary() | json_values.map(lambda value: encode(value).encode()))
def test_any_refusal_is_an_error_of_the_tree(status: int, content: bytes) -> None:
    error = error_of(Response(status, {}, content))
    assert isinstance(error, APIError)
    assert error.status == status
    assert str(status) in str(error)


def test_how_long_an_answer_asks_to_wait() -> None:
    told = {"0060": 60, "00": 0, "9" * 5_000: 999_999_999, "": None, "²": None, "-1": None}
    for header, seconds in told.items():
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


NEVER_SENT = [httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout]
PERHAPS_SENT = [httpx.ReadError, httpx.ReadTimeout, httpx.WriteError, httpx.RemoteProtocolError]


@FACES
@pytest.mark.parametrize("fault", NEVER_SENT + PERHAPS_SENT)
def test_a_fault_says_whether_the_request_may_have_been_sent(
    face: Face, fault: type[httpx.RequestError]
) -> None:
    client = face.client(KEY, base_url=PLACE, transport=Scripted(fault("no")), retries=0)
    with pytest.raises(ConnectionFailed) as failed:
        had(client.me())
    assert failed.value.sent == (fault in PERHAPS_SENT)
