"""Codes of authenticator apps and recovery codes, as they are typed."""

import os
from collections.abc import Callable

import pyotp
import pytest

from domain.characters import MARKS
from portico.domain.factors import matching_step, recovery_code, recovery_text

SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
STEP = 57_000_000
CODE = pyotp.TOTP(SECRET).generate_otp(STEP)


@pytest.mark.parametrize("typed", [CODE, f" {CODE[:3]} {CODE[3:]} "])
def test_a_code_is_that_of_its_step_with_spaces_or_without(typed: str) -> None:
    assert matching_step(SECRET, typed, (STEP - 1, STEP, STEP + 1)) == STEP
    assert matching_step(SECRET, typed, (STEP - 1, STEP + 1)) is None


@pytest.mark.parametrize("typed", ["", CODE[:5], f"{CODE}0", f"{CODE}\u0301", f"0{CODE}", "ü" * 6])
def test_what_is_no_six_digits_is_no_code(typed: str) -> None:
    assert matching_step(SECRET, typed, (STEP,)) is None


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
    assert len(recovery_text(code)) * bits_of_base32 == sum(asked) * 8


@pytest.mark.parametrize("change", [str.upper, lambda code: code.replace("-", " ")])
def test_a_recovery_code_may_be_typed_otherwise(change: Callable[[str], str]) -> None:
    code = recovery_code(os.urandom)
    assert recovery_text(change(code)) == recovery_text(code)
