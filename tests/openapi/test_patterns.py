"""What the schemas call valid is what the rules accept, for every text."""

import re
from collections.abc import Callable
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portico.contract import patterns
from portico.contract.facts import facts
from portico.domain import products, users
from portico.domain.errors import BrokenRule
from portico.domain.text import text_fault

SPACES = "".join(c for c in map(chr, range(0x110000)) if c.isspace())
EXACT: dict[str, tuple[str, Callable[[str], str]]] = {
    "user's name": (facts(users.name)["pattern"], users.name),
    "product's name": (facts(products.name)["pattern"], products.name),
    "category": (facts(products.category)["pattern"], products.category),
    "language": (patterns.LANGUAGE, users.language),
}
NARROWER: dict[str, tuple[str, Callable[[str], str]]] = {
    "e-mail": (patterns.EMAIL, users.email),
    "password": (patterns.STRONG, users.password),
    "address": (patterns.WEB_URL, users.avatar_url),
}

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
@settings(max_examples=300, deadline=None)
def test_a_text_matches_exactly_when_the_rule_accepts_it(name: str, text: str) -> None:
    pattern, rule = EXACT[name]
    if name == "language" and len(text) > users.MAX_LANGUAGE_LENGTH:
        return  # the schema's maxLength
    assert matches(pattern, text) == accepted(rule, text)


@pytest.mark.parametrize("name", NARROWER)
@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_the_rule_accepts_whatever_matches(name: str, data: st.DataObject) -> None:
    pattern, rule = NARROWER[name]
    text = normalize("NFC", data.draw(st.from_regex(pattern, fullmatch=True)))
    assert not matches(pattern, text) or accepted(rule, text)


@pytest.mark.parametrize(
    ("name", "text", "valid"),
    [
        *(("address", f"https://a.example:{port}/x", True) for port in ("1", "080", "65535")),
        *(("address", f"https://a.example:{port}", False) for port in ("0", "00000", "65536")),
        ("e-mail", "ada@example.com", True),
        ("e-mail", f"{'a' * 64}@example.com", True),
        ("e-mail", f"{'a' * 65}@example.com", False),
        ("e-mail", f"a@{'b' * 60}.{'c' * 60}.{'d' * 60}.{'e' * 60}.{'f' * 4}.com", True),
        ("e-mail", f"a@{'b' * 60}.{'c' * 60}.{'d' * 60}.{'e' * 60}.{'f' * 5}.com", False),
        ("e-mail", "a.@example.com", False),
        ("e-mail", "ada@example.invalid", False),
        ("e-mail", "ada@example.Onion", False),
        ("e-mail", "ada@localhost", False),
        ("e-mail", "ada@exa-mple.co", True),
        ("password", "Passw0rd", True),
        ("password", "Passw0r", False),
        ("password", "Pa0" + "x" * 125, True),
        ("password", "Pa0" + "x" * 126, False),
        ("password", "password1", False),
        ("password", "PASSWORD1", False),
        ("password", "Password", False),
        ("password", "\u00c4\u00e4000000", True),
        ("address", "https://example.com", True),
        ("address", "HTTP://127.0.0.1:8080/a?b=c#d", True),
        ("address", f"https://example.com/{'a' * 2028}", True),
        ("address", f"https://example.com/{'a' * 2029}", False),
        ("address", "https://user:pass@example.com/", False),
        ("address", "ftp://example.com/", False),
        ("address", "https://example.com/%zz", False),
    ],
)
def test_pattern_and_rule_agree_at_their_edges(name: str, text: str, valid: bool) -> None:  # noqa: FBT001 - a table
    pattern, rule = NARROWER[name]
    assert matches(pattern, text) is valid
    assert accepted(rule, text) is valid
