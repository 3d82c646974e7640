"""Server-Sent Events as the HTML standard has them (§9.2), read by the words of the standard."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driving import Headers
from portico.core.errors import Unreadable
from portico.core.ids import MAX_ID
from portico.web.messages import Request, TypedRequest
from portico.web.streams import event_bytes, last_event_id, position_bytes


def read(stream: bytes) -> tuple[list[tuple[str, str, str]], str]:
    """Id, type and data of every event, as §9.2.6 interprets a stream, and the last id."""
    events = []
    last_id, last_id_buffer, kind, data = "", "", "", ""
    text = stream.decode().replace("\r\n", "\n").replace("\r", "\n")
    for line in text.split("\n")[:-1]:
        if not line:
            last_id = last_id_buffer
            if data:
                events.append((last_id, kind, data.removesuffix("\n")))
            kind, data = "", ""
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id" and "\0" not in value:
            last_id_buffer = value
        elif name == "event":
            kind = value
        elif name == "data":
            data += f"{value}\n"
    return events, last_id


@given(st.integers(0, MAX_ID), st.text(min_size=1))
def test_every_text_arrives_but_for_the_form_of_its_line_ends(number: int, data: str) -> None:
    stream = position_bytes(0) + event_bytes(number, "product.created", data)
    expected = data.replace("\r\n", "\n").replace("\r", "\n")
    assert read(stream) == ([(str(number), "product.created", expected)], str(number))


def test_events_follow_each_other_and_a_position_is_none() -> None:
    stream = event_bytes(1, "a", "{}") + position_bytes(2) + event_bytes(3, "b", '{"x":"\\n"}')
    assert stream.startswith(b"id: 1\nevent: a\ndata: {}\n\n:\nid: 2\n\nid: 3\nevent: b\n")
    assert read(stream) == ([("1", "a", "{}"), ("3", "b", '{"x":"\\n"}')], "3")
    assert read(stream + position_bytes(9)[:-1])[1] == "3", "it was cut off"
    assert read(stream + position_bytes(9))[1] == "9"


def asking(*values: str) -> Request:
    scope: Any = type("Scope", (), {"method": "GET", "path": "/", "query_string": ""})
    scope.headers = Headers([("Last-Event-ID", value) for value in values])
    return TypedRequest(scope, None, "req_1")


def test_reader_tells_the_last_event_that_it_has_seen() -> None:
    assert last_event_id(asking()) is None
    assert last_event_id(asking("0")) == 0
    assert last_event_id(asking(str(MAX_ID))) == MAX_ID


@pytest.mark.parametrize(
    "values",
    [("",), ("-1",), ("01",), (str(MAX_ID + 1),), ("1", "2"), ("\u0661",)],
)
def test_what_is_no_id_is_refused(values: tuple[str, ...]) -> None:
    with pytest.raises(Unreadable) as refusal:
        last_event_id(asking(*values))
    assert [fault.field for fault in refusal.value.details] == ["Last-Event-ID"]
