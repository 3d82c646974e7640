"""Lengths, folding and addresses, whatever the field."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from portico.core.errors import BrokenRule
from portico.core.text import case_key, trimmed, web_url

any_text = st.text(st.characters(exclude_categories=()))  # lone surrogates too


@given(any_text, st.sampled_from(["", " ", "\t\r\n", "\u00a0\u2003\u3000"]))
def test_trimmed_text_is_measured_without_the_space_around_it(text: str, space: str) -> None:
    inner = text.strip()
    assert trimmed(space + text + space, 0, len(inner)) == inner
    with pytest.raises(BrokenRule):
        trimmed(space + text + space, len(inner) + 1, len(inner) + 9)


@given(any_text)
@example("\u1fb3\u0345")  # the iota subscript is a mark that folds to a letter
@example("\u0345\u0301")
@example("\u01f0")  # folds to two characters that compose to it
def test_a_case_key_is_its_own_key_and_composed(text: str) -> None:
    key = case_key(text)
    assert case_key(key) == key
    assert unicodedata.is_normalized("NFC", key)


@given(st.text())
@example("\u03b1\u0345\u0301")  # marks out of their canonical order
def test_composed_and_decomposed_text_have_one_key(text: str) -> None:
    assert case_key(unicodedata.normalize("NFD", text)) == case_key(text)


@given(
    st.text(
        st.characters(max_codepoint=0x17F, exclude_characters="\N{LATIN SMALL LETTER DOTLESS I}")
    )
)
def test_text_in_capitals_has_the_key_of_the_text(text: str) -> None:
    assert case_key(text.upper()) == case_key(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [("ADA@EXAMPLE.COM", "ada@example.com"), ("STRASSE", "straße"), ("É", "e\u0301"), ("Σ", "ς"),
     ("\u212b", "å")],
)  # fmt: skip
def test_what_differs_in_case_or_composition_alone_has_one_key(one: str, other: str) -> None:
    assert case_key(one) == case_key(other)


@pytest.mark.parametrize(
    "url",
    ["https://example.com", "http://example.com:8080/a/b.png?size=2&x=%20#top", "HTTPS://EXAMPLE.com/",
     "https://localhost/x", "https://my_host/x", "https://127.0.0.1/x", "https://[2001:db8::1]:443/x",
     "https://example.com./x", "https://xn--xample-9ua.com/%C3%A9.png", "https://example.com?q=/?@:",
     "https://example.com/@user"],
)  # fmt: skip
def test_an_absolute_web_url_passes_unchanged(url: str) -> None:
    assert web_url(url) == url


@pytest.mark.parametrize(
    "url",
    ["", "example.com", "//example.com", "/x", "https:", "https://", "https:///x", "https://:80/",
     "ftp://example.com", "javascript:alert(1)", "data:image/png;base64,AA==", "https:/example.com",
     "https://ada@example.com/", "https://ada:secret@example.com/", "https://example.com\\@evil.test",
     "https://exa mple.com", "https://example.com/a b", " https://example.com", "https://example.com\n",
     "https://example.com/\x00", "https://example.com/\x7f", "https://example.com/\ud800",
     "https://éxample.com/", "https://example.com/é", "https://example.com/%zz", "https://example.com/%",
     "https://example.com/<script>", 'https://example.com/"', "https://example.com:port/",
     "https://[::1/", "https://[::::]/", "https://[1.2.3.4]/", "https://a..b/", "https://example.com#a#b"],
)  # fmt: skip
def test_what_is_no_web_url_is_refused(url: str) -> None:
    with pytest.raises(BrokenRule, match="absolute http or https URL"):
        web_url(url)


@given(any_text)
def test_no_text_crashes_the_url_rule(text: str) -> None:
    for url in (text, "https://" + text):
        try:
            assert web_url(url) == url
        except BrokenRule:
            continue
        assert url.isascii()
        assert url.isprintable()
        assert " " not in url
