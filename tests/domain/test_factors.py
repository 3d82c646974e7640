"""Codes of authenticator apps and recovery codes, as they are typed."""

import os
from unicodedata import category

import pyotp
import pytest

from domain.characters import CHARACTERS, MARKS
from portico.features.signin.rules import matching_step, read_code, recovery_code

SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
STEP = 57_000_000
CODE = pyotp.TOTP(SECRET).generate_otp(STEP)


def test_a_code_is_that_of_its_step() -> None:
    assert matching_step(SECRET, CODE, (STEP - 1, STEP, STEP + 1)) == STEP
    assert matching_step(SECRET, CODE, (STEP - 1, STEP + 1)) is None


def test_white_space_and_hyphens_of_any_kind_do_not_count_in_a_code() -> None:
    code = recovery_code(os.urandom)
    for separator in CHARACTERS:
        if separator.isspace() or category(separator) == "Pd" or separator in "\u2212\u200b":
            assert read_code(f"{separator}{CODE[:3]}{separator}{CODE[3:]}{separator}") == CODE
            assert read_code(code.replace("-", separator).upper()) == code.replace("-", "")


@pytest.mark.parametrize(
    "typed", [f"{CODE}\u0301", f"{CODE}.", f"x{CODE}", f"{CODE[:3]}/{CODE[3:]}"]
)
def test_other_characters_count_in_a_code(typed: str) -> None:
    assert read_code(typed) == typed


def test_text_that_is_too_long_for_a_code_is_none() -> None:
    assert read_code(CODE + " " * 1_000_000) == ""


def test_what_is_too_long_for_a_code_is_compared_with_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The library normalises what it compares, which takes the square of the marks in it, and does
    so for each step."""
    lengths: list[int] = []
    compare = pyotp.utils.strings_equal

    def strings_equal(one: str, other: str) -> bool:
        lengths.append(max(len(one), len(other)))
        return compare(one, other)

    monkeypatch.setattr(pyotp.utils, "strings_equal", strings_equal)
    for typed in (MARKS, MARKS[4_500:5_500], CODE):
        matching_step(SECRET, typed, range(STEP, STEP + 41))
    assert lengths == [len(CODE)] * 41


def test_a_recovery_code_has_enough_random_bits_for_a_plain_digest() -> None:
    """OWASP ASVS 5.0, 6.5.2: below 112 bits, what is stored must be a salted, slow hash."""
    asked: list[int] = []

    def random(length: int) -> bytes:
        asked.append(length)
        return os.urandom(length)

    code = recovery_code(random)
    assert sum(asked) * 8 >= 112
    bits_of_base32 = 5
    assert len(read_code(code)) * bits_of_base32 == sum(asked) * 8
