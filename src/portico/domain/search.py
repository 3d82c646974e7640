"""Tokens for full-text search, the same for both databases.

A token is plain ASCII that no query syntax, collation or tokenizer interprets: letters and digits
stay, any other character becomes `_` and six hexadecimal digits. No character's form begins
another's, so one word is a prefix of another exactly when their tokens are.
"""

import re
from unicodedata import category, normalize

MAX_WORD_LENGTH = 48

_PART = 64
"""How many characters are decomposed at once. It does not matter where a part ends: only the order
of marks would differ, and marks are dropped."""

_WORD = re.compile(r"[^\W_]+")  # a run of what str.isalnum accepts
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def tokens(text: str) -> list[str]:
    """The words of a text as tokens, in order: without case and accents, each of at most 48
    characters."""
    words = [word[:MAX_WORD_LENGTH] for word in _WORD.findall(_folded(text))]
    return [word if word.isascii() else _NOT_ASCII.sub(_escaped, word) for word in words]


def query_words(text: str) -> list[str]:
    """The tokens of a search: the last word last, the others once each.

    The last word matches as a prefix, the others whole. Empty if the text has no words.
    """
    words = tokens(text)
    return [*dict.fromkeys(words[:-1]), *words[-1:]]


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    # In parts, because ordering the marks of one letter takes time quadratic in their number.
    parts = [text[start : start + _PART] for start in range(0, len(text), _PART)]
    decomposed = "".join(normalize("NFKD", part) for part in parts)
    return "".join(c for c in decomposed if category(c)[0] != "M").casefold()


def _escaped(match: re.Match[str]) -> str:
    return f"_{ord(match[0]):06x}"
