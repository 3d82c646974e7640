"""Words for full-text search."""

import re
import unicodedata
from typing import Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from domain.characters import MARKS
from portico.data import search
from portico.data.search import MAX_WORD_LENGTH, query_words, tokens

any_text = st.text(st.characters(exclude_categories=()))  # lone surrogates too
one_word = st.text(st.characters(categories=["Ll", "Lo", "Nd"]), min_size=1)


def decoded(token: str) -> str:
    return re.sub("_([0-9a-f]{6})", lambda match: chr(int(match[1], 16)), token)


@pytest.mark.parametrize(
    ("text", "words"),
    [("", []), ("  !?… ", []), ("Red Shirt", ["red", "shirt"]), ("it's", ["it", "s"]),
     ("red-shirt_2.0", ["red", "shirt", "2", "0"]), ("Crème BRÛLÉE", ["creme", "brulee"]),
     ("e\u0301te\u0301", ["ete"]), ("STRASSE straße", ["strasse", "strasse"]),
     ("\ufb01ne ① ²", ["fine", "1", "2"]), ("İstanbul", ["istanbul"]), ("🙂 ok", ["ok"]),
     ("Σίς ΣΊΣ", ["_0003c3_0003b9_0003c3", "_0003c3_0003b9_0003c3"]),
     ("日本 語", ["_0065e5_00672c", "_008a9e"]), ("a\x00b\ud800c", ["a", "b", "c"]),
     ("a AND b* OR \"c\" NEAR(d)", ["a", "and", "b", "or", "c", "near", "d"])],
)  # fmt: skip
def test_text_is_split_into_folded_words(text: str, words: list[str]) -> None:
    assert tokens(text) == words


@given(any_text)
def test_a_token_is_ascii_that_no_query_syntax_knows(text: str) -> None:
    for token in tokens(text):
        assert re.fullmatch("(?:[0-9a-z]|_[0-9a-f]{6})+", token)
        assert 1 <= len(decoded(token)) <= MAX_WORD_LENGTH


@given(any_text)
@example("ᾳ\u0345ǰ")
def test_the_words_of_words_are_the_same_words(text: str) -> None:
    words = [decoded(token) for token in tokens(text)]
    assert [decoded(token) for token in tokens(" ".join(words))] == words


@given(any_text)
@example("\uff9e\u0323\u0344")
@example("x" * 62 + "कि़\u094d\u093cँ ﾊﾞ")
def test_words_are_those_of_the_text_as_unicode_decomposes_it(text: str) -> None:
    assert tokens(unicodedata.normalize("NFKD", text)) == tokens(text)


def test_of_a_long_text_little_is_normalized_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """To put marks in order takes the square of their number."""
    lengths: list[int] = []

    def normalize(form: Literal["NFC", "NFD", "NFKC"], text: str) -> str:
        if form == "NFKC":  # the others see single characters
            lengths.append(len(text))
        return unicodedata.normalize(form, text)

    monkeypatch.setattr(search, "normalize", normalize)
    assert tokens(f"a{MARKS}b") == ["ab"]
    assert sum(lengths) == len(MARKS) + 2
    assert max(lengths) <= 100


@given(one_word, one_word)
@example("é", "e")
@example("a" * MAX_WORD_LENGTH, "b")
def test_one_word_begins_another_exactly_when_their_tokens_do(one: str, rest: str) -> None:
    for other in (one + rest, rest + one):
        for short in tokens(one):
            for long in tokens(other):
                assert long.startswith(short) == decoded(long).startswith(decoded(short))


@given(st.text(st.characters(max_codepoint=0x24F)))
def test_case_and_composition_make_no_difference(text: str) -> None:
    assert tokens(text.upper()) == tokens(text)
    assert tokens(unicodedata.normalize("NFD", text)) == tokens(text)


def test_a_long_word_is_cut_alike_in_text_and_query() -> None:
    assert tokens("x" * 49) == query_words("x" * 500) == ["x" * 48]
    assert tokens("é" * 49) == ["e" * 48]
    assert tokens("語" * 49) == ["_008a9e" * 48]


@pytest.mark.parametrize(
    ("text", "words"),
    [("", []), (" - ", []), ("shirt", ["shirt"]), ("red red shirt", ["red", "shirt"]),
     ("red shirt red", ["red", "shirt", "red"]), ("red RED réd", ["red", "red"])],
)  # fmt: skip
def test_a_query_has_each_whole_word_once_and_the_prefix_last(text: str, words: list[str]) -> None:
    assert query_words(text) == words


@given(any_text)
def test_a_query_keeps_all_words_and_its_last_one_last(text: str) -> None:
    words, query = tokens(text), query_words(text)
    assert set(query) == set(words)
    assert query[-1:] == words[-1:]
    assert len(set(query[:-1])) == len(query[:-1])
