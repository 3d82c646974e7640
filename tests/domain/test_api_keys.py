"""How keys are made, recognised and outlived."""

import hashlib
import re
import zlib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from portico.core.secrets import digest
from portico.features.access.rules import (
    KEY_TYPES,
    KeyType,
    hint,
    key_type_of,
    mint,
)

BASE62 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
any_text = st.text(st.characters(exclude_categories=()))  # lone surrogates too
key_types = st.sampled_from(KEY_TYPES)
randoms = st.binary(min_size=32, max_size=32)
minted = st.builds(mint, key_types, randoms.map(lambda one: lambda _: one))
in_body = st.integers(8, 8 + 43 - 1)


@given(key_types, randoms)
def test_a_minted_key_is_well_formed_and_of_fixed_width(key_type: KeyType, random: bytes) -> None:
    key = mint(key_type, lambda _: random)
    assert re.fullmatch(f"sk_{key_type}_[0-9A-Za-z]{{49}}", key)
    assert key_type_of(key) == key_type


@given(key_types, randoms)
def test_a_key_holds_all_its_256_bits(key_type: KeyType, random: bytes) -> None:
    body = mint(key_type, lambda _: random)[8:-6]
    number = sum(BASE62.index(c) * 62**place for place, c in enumerate(reversed(body)))
    assert number.to_bytes(32) == random


def test_every_single_change_and_swap_in_one_key_is_detected() -> None:
    key = mint("live", lambda _: bytes(range(32)))
    changed = [key[:i] + c + key[i + 1 :] for i in range(8, 51) for c in BASE62 if c != key[i]]
    swapped = [
        key[:i] + key[i + 1] + key[i] + key[i + 2 :] for i in range(8, 50) if key[i] != key[i + 1]
    ]
    assert [bad for bad in changed + swapped if key_type_of(bad)] == []


@given(minted, key_types)
def test_a_key_cannot_be_passed_off_as_another_type(key: str, other: KeyType) -> None:
    assume(not key.startswith(f"sk_{other}_"))
    assert key_type_of(f"sk_{other}_{key[8:]}") is None


@given(minted, in_body)
def test_a_key_that_lost_or_gained_a_character_is_detected(key: str, place: int) -> None:
    for bad in (key[:place] + key[place + 1 :], key + "0", key + "\n", " " + key, key.upper()):
        assert key_type_of(bad) is None


@given(any_text, minted)
def test_no_text_is_taken_for_a_key_or_crashes(text: str, key: str) -> None:
    assert key_type_of(text) is None
    assert key_type_of(key[:8] + text.ljust(49, "0")[:49]) is None
    assert key_type_of((key[:8] + text)[:20] + key[20:]) in (None, key[3:7])


@pytest.mark.parametrize("body", ["-" * 43, "é" * 43, "a" * 42, "a" * 44, ""])
def test_a_true_checksum_does_not_make_a_key_of_another_alphabet_or_length(body: str) -> None:
    forged = "sk_live_" + body
    number = zlib.crc32(forged.encode())
    for place in reversed(range(6)):
        forged += BASE62[number // 62**place % 62]
    assert key_type_of(forged) is None


@given(minted)
def test_what_is_stored_of_a_key_is_its_sha256_and_a_hint(key: str) -> None:
    assert digest(key) == hashlib.sha256(key.encode()).digest()
    assert hint(key) == f"{key[:8]}…{key[-4:]}"
