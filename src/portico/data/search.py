"""Tokens for full-text search, the same for both databases.

A token is plain ASCII that no query syntax, collation or tokenizer interprets: ASCII letters and
digits stay, any other character becomes `_` and six hexadecimal digits. No character's form begins
another's, so one word is a prefix of another exactly when their tokens are.
"""

import re
from unicodedata import category, name, normalize

MAX_WORD_LENGTH = 48

_PART = re.compile(r"(?s).{1,64}(?:[^\w\s]|[\uff9e\uff9f]){0,32}")
"""As much as is normalized at once: ordering the marks of one letter takes time quadratic in their
number. A part ends before a letter if one comes in time, so that no letter loses its marks."""

_ACCENTS = ("COMBINING ", "HEBREW ", "ARABIC ", "SYRIAC ", "VARIATION ", "MONGOLIAN FREE ")
"""How the names of marks begin that do not count: accents, points, variations. All others do: the
voicing of kana, the vowels of Indic scripts and Thai."""
_VOICING = "COMBINING KATAKANA-HIRAGANA "
_LETTERS = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "ħ": "h", "þ": "th", "æ": "ae", "œ": "oe"}
    | {"\N{LATIN SMALL LETTER DOTLESS I}": "i"}
)
"""Letters that Unicode does not decompose, as people type them who do not have them."""
_SHORT_I = "й"
"""A letter of its own, though Unicode decomposes it."""

_ESCAPED = re.compile(r"[^\x00-\x7f]")
_CHARACTER = re.compile("_.{6}|.")


def tokens(text: str) -> list[str]:
    """The words of a text as tokens, in order: without case and accents, each of at most 48
    characters."""
    if not text.isascii():
        text = "".join(normalize("NFKC", part) for part in _PART.findall(text))
    words = text.translate(_SPELLINGS).split()
    return [
        word
        if len(word) <= MAX_WORD_LENGTH
        else "".join(_CHARACTER.findall(word)[:MAX_WORD_LENGTH])
        for word in words
    ]


def query_words(text: str) -> list[str]:
    """The tokens of a search: the last word last, the others once each.

    The last word matches as a prefix, the others whole. Empty if the text has no words.
    """
    words = tokens(text)
    return [*dict.fromkeys(words[:-1]), *words[-1:]]


class _Spellings(dict[int, str]):
    """What each character becomes in a token, a space between words; filled as they occur."""

    def __missing__(self, code: int) -> str:
        spelled = _spelled(chr(code))
        if code <= 0xFFFF:  # bounds the memory; what is above is rare
            self[code] = spelled
        return spelled


_SPELLINGS = _Spellings()


def _spelled(character: str) -> str:
    folded = character.casefold()
    if folded != _SHORT_I:
        letters = "".join(c for c in normalize("NFD", character) if not _is_accent(c))
        if not "가" <= character <= "힣":  # a syllable begins like another while it is typed
            letters = normalize("NFC", letters)
        folded = letters.casefold().translate(_LETTERS)
    if not all(c.isalnum() or category(c)[0] == "M" for c in folded):
        return " "
    return _ESCAPED.sub(lambda match: f"_{ord(match[0]):06x}", folded)


def _is_accent(character: str) -> bool:
    if category(character)[0] != "M":
        return False
    named = name(character)
    return named.startswith(_ACCENTS) and not named.startswith(_VOICING)
