"""What the schemas call valid is what the rules accept, for every text."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portico.core import users
from portico.core.errors import BrokenRule
from portico.core.text import text_fault
from portico.features.catalogue.products import PRODUCTS
from portico.mounts import AUTH, V1
from portico.web import json_schema
from portico.web.json_schema import facts
from portico.web.reading import Faults, FieldKind, fields

SPACES = "".join(c for c in map(chr, range(0x110000)) if c.isspace())
NAMED: dict[str, Any] = {name: PRODUCTS.by_name[name] for name in ("name", "category")}
EXACT: dict[str, tuple[str, Callable[[str], str]]] = {
    "user's name": (facts(users.name)["pattern"], users.name),
    **{name: (facts(field.rule)["pattern"], field.rule) for name, field in NAMED.items()},
    "language": (json_schema.LANGUAGE, users.language),
}
WIDER: dict[str, tuple[str, Callable[[str], str]]] = {
    "e-mail": (json_schema.EMAIL, users.email),
    "password": (json_schema.STRONG, users.password),
    "address": (json_schema.WEB_URL, users.avatar_url),
}
ALTERNATIVES = (
    json_schema.PASSWORD_BEYOND_ASCII,
    json_schema.EMAIL_BEYOND_ASCII,
    json_schema.IPV6_HOST,
)

tiny = st.text(alphabet=f"{SPACES}ab-Z9é\0\u180e\ufeff", max_size=8)
edges = st.builds(
    lambda left, core, length, right: left + core * length + right,
    st.text(alphabet=SPACES, max_size=3),
    st.sampled_from(["a", "a ", "\n", "é"]),
    st.integers(0, 205),
    st.text(alphabet=SPACES, max_size=3),
)


def matches(pattern: str, text: str) -> bool:
    """Whether a text matches as in JSON Schema, where `$` is the very end."""
    return re.search(rf"{pattern[:-1]}\Z", text) is not None


def accepted(rule: Callable[[str], str], text: str) -> bool:
    """Whether a text passes, as it would in a body."""
    if text_fault(text):
        return False
    try:
        rule(text)
    except BrokenRule:
        return False
    return True


@pytest.mark.parametrize("name", EXACT)
@given(text=tiny | edges | st.text(max_size=40))
@settings(max_examples=100, deadline=None)
def test_a_text_matches_exactly_when_the_rule_accepts_it(name: str, text: str) -> None:
    pattern, rule = EXACT[name]
    if name == "language" and len(text) > users.MAX_LANGUAGE_LENGTH:
        return  # the schema's maxLength
    assert matches(pattern, text) == accepted(rule, text)


@pytest.mark.parametrize("name", WIDER)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_the_rule_accepts_what_matches_but_for_the_alternatives_that_are_wider(
    name: str, data: st.DataObject
) -> None:
    pattern, rule = WIDER[name]
    for wider in ALTERNATIVES:
        pattern = pattern.replace(f"|{wider}", "")
    text = data.draw(st.from_regex(pattern, fullmatch=True))
    assert not matches(pattern, text) or accepted(rule, text)


# All texts of both documents

TEXTS = (
    *("", " ", "a", "ab", "a\n", " Ada\u3000", "\u200bab", "a\0b", "a" * 50, "\U0001f600" * 2),
    *(core * length for core in ("x", "é", "e\u0301") for length in (99, 100, 101, 200, 201, 2001)),
    *("ada@example.com", "ADA@EXAMPLE.COM", " ada@example.com ", "ada@localhost", "ada@b.c"),
    *("почта@пример.рф", "ada@xn--e1afmkfd.xn--p1ai", "ada@exam--ple.com", "ada@пример。рф"),
    *("åda@example.com", "a\u030ada@example.com", "ada@straße.example", "用户@例子.广告"),
    *("o'neil+shop@example.x9z", '"ada"@example.com', "ada@[192.0.2.7]", "ada@examp\u200dle.com"),
    *(
        "Passw0rd",
        "Юлия1234",
        "Πέρασμα١٢٣",
        "\uff30\uff41ssw\uff10rd",
        "Passwört1",
        "Passwo\u0308rt1",
    ),
    *("Pass" + "\U0001d160" * 3 + "1", "Ab1" + "ḗ" * 125, "Ab1" + "e\u0304\u0301" * 125),
    *("https://example.com/a?b=c#d", "HTTP://EXAMPLE.COM", "https://[::1]:8443/", "https://_a.b./"),
    *("https://[2001:db8::192.0.2.7]/x", "https://[::ffff:0:0]", "https://пример.рф", "//a.b/c"),
    *("https://xn--e1afmkfd.xn--p1ai/%D0%B9", "https://a.b/й", "https://a.b/ ", "https://a@b.c"),
    *("en", "pt-BR", "zh-Hant-TW", "en-US-u-hc-h23", "x-private", "de-CH-1996", "sr-Latn-RS-x-ab"),
    *("10.0.0.0/8", "2001:DB8::/32", "::ffff:192.0.2.7", "192.0.2.7/032", "10.0.0.1/8", "::1/129"),
    "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255/128",
    *("2027-01-31T08:15:30Z", "2027-01-31t08:15:30.123456789z", "2027-01-31T08:15:30-05:30"),
    *("2027-01-31T08:15:30.1234567890Z", "2027-06-30T23:59:60Z", "2027-02-29T08:15:30Z"),
    *("2027-01-31 08:15:30Z", "2027-01-31T08:15:30", "2027-01-31", "9999-12-31T23:59:59+00:00"),
    *(f"https://a.example:{port}" for port in ("1", "080/x", "65535", "0", "00000", "65536")),
    *(f"https://example.com/{'a' * length}" for length in (2028, 2029)),
    *("https://user:pass@example.com/", "https://[fe80::1%25eth0]/", "https://a.b/%zz"),
    *(f"{'a' * length}@example.com" for length in (64, 65)),
    *(f"a@{'.'.join(letter * 60 for letter in 'bcde')}.{'f' * length}.com" for length in (4, 5)),
    *("a.@example.com", "ada@example.invalid", "ada@ex--ample.com", "ada@example.x9"),
    *("Passw0r", "password1", *(f"Pa0{'x' * length}" for length in (125, 126))),
    *("product.*", "product.created,user.*", "product.created, user.*", "webhook.*", "*"),
)
"""Texts of every kind that some rule knows, and some beside each."""

BOUNDS = {"pattern", "format", "minLength", "maxLength"}


def strings(kind: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The kinds of strings in a value, each with its path."""
    parts = vars(kind)
    if "_shape" in parts:
        for field, inner in fields(parts["_shape"]).items():
            yield from strings(inner, f"{name}.{field}")
    elif inside := [part for part in ("_kind", "_name", "_value") if part in parts]:
        for part in inside:
            yield from strings(parts[part], name + part.replace("_kind", ""))
    elif kind.schema()["type"] == "string" and BOUNDS & kind.schema().keys():
        yield name, kind


READ = {
    name: kind
    for route in (*V1, *AUTH)
    for shape in (route.body, route.query)
    if shape
    for field, inner in fields(shape).items()
    for name, kind in strings(inner, f"{shape.__name__}.{field}")
}


def taken(kind: FieldKind, text: str) -> bool:
    """Whether the server takes a string there."""
    faults = Faults()
    kind.read(text, "", faults)
    return text_fault(text) is None and not (faults.unreadable or faults.broken)


def said_in_words(schema: dict[str, Any], text: str) -> bool:
    """Whether it is the description that says which of such texts are accepted."""
    pattern = schema.get("pattern")
    if pattern in (json_schema.EMAIL, json_schema.STRONG):
        return not text.isascii() or "xn--" in text
    return pattern == json_schema.NETWORK or schema.get("format") == "date-time"


def test_the_document_refuses_no_text_that_the_server_takes_nor_the_other_way_round() -> None:
    for name, kind in READ.items():
        schema = kind.schema()
        validator = jsonschema_rs.validator_for(schema, validate_formats=True)
        for text in TEXTS:
            if taken(kind, text):
                assert validator.is_valid(text), (name, text)
            else:
                assert not validator.is_valid(text) or said_in_words(schema, text), (name, text)
