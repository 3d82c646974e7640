"""What passwords that people choose on pages must not be: common, or made of who they are.

The 30,000 most common ones are those of zxcvbn, of which a digest each ships with Portico: 234 KiB,
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
    """Accept a password that keeps the rules of `domain.users.password`, is none of the most common
    ones, and holds no word of four characters or more of the name or of what stands before the @ of
    the e-mail, all whatever their case. Raises `BrokenRule`."""
    strong(password)
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
    """Whether a password is one of the most common ones, whatever its case."""
    known, wanted = _marks(), mark(password)
    place = bisect_left(known, wanted)
    return place < len(known) and known[place] == wanted


def mark(password: str) -> int:
    """What is kept of a common password: 64 bits of its digest."""
    return int.from_bytes(sha256(case_key(password).encode()).digest()[:8], "big")


@cache
def _marks() -> "array[int]":
    marks = array("Q", LIST.read_bytes())
    if sys.byteorder == "big":
        marks.byteswap()
    return marks
