"""What people may choose for a password on pages, and what looking it up costs."""

from unicodedata import normalize

import pytest
from zxcvbn.frequency_lists import FREQUENCY_LISTS

from portico.core.errors import BrokenRule
from portico.features.people.passwords import LIST, chosen, is_common, mark


def test_the_list_is_the_whole_of_what_it_was_packed_from() -> None:
    source = FREQUENCY_LISTS["passwords"]
    assert len(LIST.read_bytes()) == 8 * len({mark(one) for one in source})
    assert len(source) >= 20_000
    assert all(map(is_common, source))


@pytest.mark.parametrize("password", ["Password1", "pASSWORD1", "Qwerty123", "Iloveyou1"])
def test_a_common_password_is_refused_whatever_its_case(password: str) -> None:
    with pytest.raises(BrokenRule, match="common"):
        chosen(password, name="Ada", email="ada@example.com")


@pytest.mark.parametrize("password", ["Tr0ubador&3", "Analytical-1843", "Grünkohl77"])
def test_others_pass_as_they_are(password: str) -> None:
    assert chosen(password, name="Ada Li", email="a.li@example.com") == password
    decomposed = normalize("NFD", password)
    assert chosen(decomposed, name="Ada Li", email="a.li@example.com") == password


@pytest.mark.parametrize(
    ("name", "email", "password"),
    [
        ("Ada Lovelace", "a@example.com", "xxLoveLACE-9"),
        ("Ada", "countess.ada_king@example.com", "Countess-9"),
        ("Ada", "countess.ada_king@example.com", "The-King-999"),
        ("Åsa Örsted", "a@example.com", "9-ÖRSTED-a"),
        ("Åsa Örsted", "a@example.com", "9-O\u0308RSTED-a"),
        ("Straße Müller", "a@example.com", "9-STRASSE-a"),
    ],
)
def test_own_words_are_refused_whatever_their_case(name: str, email: str, password: str) -> None:
    with pytest.raises(BrokenRule, match="your name or e-mail"):
        chosen(password, name=name, email=email)


@pytest.mark.parametrize("password", ["Ada-12345x", "Example-77", "K1ng-of-all"])
def test_short_words_and_the_domain_are_no_own_words(password: str) -> None:
    chosen(password, name="Ada Kin", email="ada.kin@example.com")
