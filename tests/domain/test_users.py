"""The rules of a user's values."""

from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.characters import MARKS
from portico.core import users
from portico.core.errors import BrokenRule

any_text = st.text(st.characters(exclude_categories=()))  # lone surrogates too


@pytest.mark.parametrize(
    ("text", "normal"),
    [("ada@example.com", "ada@example.com"), ("Ada.L+x@Example.COM", "Ada.L+x@example.com"),
     ("a@host.test", "a@host.test"), ("a@office.local", "a@office.local"),
     ("e\u0301@x.org", "é@x.org"), ("a@éxample.com", "a@éxample.com"),
     ("a@xn--xample-9ua.com", "a@éxample.com"), ("o'neil@x.org", "o'neil@x.org")],
)  # fmt: skip
def test_an_email_is_normalised(text: str, normal: str) -> None:
    assert users.email(text) == normal


@pytest.mark.parametrize(
    "text",
    ["", "ada", "@example.com", "ada@", "ada@host", "ada@localhost", "a@b@example.com",
     "a..b@x.org", ".a@x.org", "ada@[127.0.0.1]", "ada@[IPv6:::1]", "ada@127.0.0.1",
     '"ada l"@x.org', "Ada <ada@x.org>", " ada@x.org", "ada@x.org ", "ada@x.org\n", "a da@x.org",
     "ada@x..org", "ada@x.org.", "ada@-x.org", "a\x00@x.org", "a\ud800@x.org", "a@\ud800.org",
     "a@x\u202e.org", "x" * 65 + "@x.org", "a@" + "x" * 64 + ".org", "@" * 254],
)  # fmt: skip
def test_what_is_no_email_is_refused(text: str) -> None:
    with pytest.raises(BrokenRule, match="valid e-mail address"):
        users.email(text)


def test_an_email_has_at_most_254_characters_however_long_the_input() -> None:
    local, domain = "a" * 64, ".".join(["b" * 61, "b" * 61, "b" * 61, "org"])
    assert len(users.email(f"{local}@{domain}")) == 254
    for long in (f"{local}@b{domain}", "a" * 1_000_000 + "@x.org", "é" * 1_000_000):
        with pytest.raises(BrokenRule, match="at most 254"):
            users.email(long)


def test_what_is_longer_than_an_email_can_be_becomes_short_and_nobodys_and_is_told_apart() -> None:
    texts = [text * 20 for text in (MARKS, f"a{MARKS}", f"ada@{MARKS}.org", f"{MARKS}\ud800")]
    typed = [users.typed_email(text) for text in texts]
    assert max(map(len, typed)) <= users.MAX_EMAIL_LENGTH
    keys = set(map(users.email_key, typed))
    assert len(keys) == len(texts)
    for key in keys:
        with pytest.raises(BrokenRule):
            users.email(key)


@given(st.text(st.characters(exclude_categories=()), max_size=200))
def test_whatever_is_typed_to_be_found_by_is_an_email_or_stays_as_it_is(text: str) -> None:
    for typed in (text, f"{text}@example.org", f"ada@{text}.org"):
        try:
            assert users.typed_email(typed) == users.email(typed.strip())
        except BrokenRule:
            assert users.typed_email(typed) == typed.strip()


@given(any_text, any_text)
def test_an_email_that_passes_passes_again_unchanged(local: str, domain: str) -> None:
    try:
        email = users.email(f"{local}@{domain}.org")
    except BrokenRule:
        return
    assert users.email(email) == email


def test_addresses_that_differ_in_case_or_composition_have_one_key() -> None:
    variants = ["Zoe\u0301@Example.com", "ZOÉ@EXAMPLE.COM", "zoé@example.com"]
    assert {users.email_key(users.email(v)) for v in variants} == {"zoé@example.com"}
    assert users.email_key("zoe@example.com") != "zoé@example.com"


@given(any_text)
def test_a_password_is_composed_and_measured_so(text: str) -> None:
    composed = normalize("NFC", f"Ab1{text}")
    for typed in (composed, normalize("NFD", composed)):
        assert users.normalized_password(typed) == composed
    assert len(normalize("NFD", text)) <= 4 * len(normalize("NFC", text))


@pytest.mark.parametrize("text", ["", "Admin", "admin ", "owner", "member", "\ud800"])
def test_an_unknown_role_or_theme_is_refused_with_the_choices(text: str) -> None:
    with pytest.raises(BrokenRule, match="admin, editor, viewer"):
        users.role(text)
    with pytest.raises(BrokenRule, match="system, light, dark"):
        users.theme(text)


@pytest.mark.parametrize(
    "text",
    ["en", "EN", "deu", "pt-BR", "zh-Hant-TW", "de-CH-1996", "en-" + "-".join(["x8"] * 10),
     "en-US-u-hc-h23", "de-DE-u-co-phonebk", "en-a-bbb-x-a-ccc", "fr-x-1", "sr-Latn-t-sr-cyrl"],
)  # fmt: skip
def test_a_language_tag_passes(text: str) -> None:
    assert users.language(text) == text


@pytest.mark.parametrize(
    "text",
    ["", "e", "engl", "en_US", "en-", "-en", "en--US", "en-a", "én", "en\n", "en-123456789",
     "en-u", "en-u-x", "en-u-a-bb", "en-x", "en-x-123456789"],
)  # fmt: skip
def test_what_is_no_language_tag_is_refused(text: str) -> None:
    with pytest.raises(BrokenRule, match="language tag"):
        users.language(text)


def test_a_language_tag_has_at_most_35_characters() -> None:
    with pytest.raises(BrokenRule, match="35"):
        users.language("en" + "-abcdefgh" * 4)


def test_an_avatar_is_a_web_address() -> None:
    assert users.avatar_url("https://example.com/a.png") == "https://example.com/a.png"
    with pytest.raises(BrokenRule):
        users.avatar_url("a.png")


@given(any_text)
def test_no_text_crashes_a_rule(text: str) -> None:
    for rule in (users.name, users.email, users.password, users.role, users.theme, users.language):
        try:
            rule(text)
        except BrokenRule as refusal:
            str(refusal).encode()  # can be sent, whatever the text was


def test_password_has_8_to_128_characters_of_three_kinds() -> None:
    for text in ("Abcdefg1", "Éclairé1", " Ab1  ".ljust(8), "Ab1" + "x" * 125):
        assert users.password(text) == text
    for text in ("", "Abcdef1", "Ab1" + "x" * 126, "Ab1" + "x" * 1_000_000):
        with pytest.raises(BrokenRule, match="8 to 128"):
            users.password(text)
    for text in ("abcdefg1", "ABCDEFG1", "Abcdefgh", "12345678", "Abcdefg²", "horse " * 2):
        with pytest.raises(BrokenRule, match="uppercase letter, a lowercase letter") as refusal:
            users.password(text)
        assert "horse" not in str(refusal.value)
