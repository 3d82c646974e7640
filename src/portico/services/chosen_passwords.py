"""Rules for passwords that people choose on pages: neither common nor containing their name or
e-mail.

The 30,000 most common passwords are those of zxcvbn. Portico ships a digest of each: 234 KiB,
looked up in a few microseconds. `script/common-passwords` packs them.
"""

import re
import sys
from array import array
from bisect import bisect_left
from functools import cache
from hashlib import sha256
from importlib.resources import files

from portico.domain.errors import BrokenRule, Fault, Invalid
from portico.domain.text import case_key
from portico.domain.users import password as strong

LIST = files(__package__) / "common_passwords.bin"

_OWN_WORD_LENGTH = 4
_WORD = re.compile(r"[^\W_]+")


def chosen(password: str, *, name: str, email: str) -> str:
    """Normalises a password that satisfies `domain.users.password`, is not one of the most common
    ones, and contains no word of four or more characters from the name or the part of the e-mail
    before the @, in any case. Raises `BrokenRule`."""
    password = strong(password)
    if is_common(password):
        raise BrokenRule("must not be one of the most common passwords, which are guessed first")
    folded = case_key(password)
    own = _WORD.findall(case_key(f"{name} {email.rpartition('@')[0]}"))
    if any(len(word) >= _OWN_WORD_LENGTH and word in folded for word in own):
        raise BrokenRule("must not contain your name or e-mail, which are guessed first")
    return password


def require_chosen(password: str, *, name: str, email: str) -> None:
    """As `chosen`, but raises `Invalid` with the field `password`."""
    try:
        chosen(password, name=name, email=email)
    except BrokenRule as broken:
        message = "This password is too easy to guess."
        raise Invalid(message, [Fault("password", str(broken))]) from None


def is_common(password: str) -> bool:
    """Whether a password is one of the most common ones, in any case."""
    known, wanted = _marks(), mark(password)
    place = bisect_left(known, wanted)
    return place < len(known) and known[place] == wanted


def mark(password: str) -> int:
    """The first 64 bits of a password's digest, as stored for common passwords."""
    return int.from_bytes(sha256(case_key(password).encode()).digest()[:8], "big")


@cache
def _marks() -> "array[int]":
    marks = array("Q", LIST.read_bytes())
    if sys.byteorder == "big":
        marks.byteswap()
    return marks
