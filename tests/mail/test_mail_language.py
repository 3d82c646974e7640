"""Mails are written in the language of whoever reads them, and every language says the same."""

import tomllib
from importlib.resources import files
from string import Formatter
from typing import Any, get_args

import pytest

from driving import Api
from mail.conftest import Post, link, words
from portico.core.audit import OPERATOR, Actor, Author
from portico.features.mail.letters import LANGUAGES, Kind
from portico.features.people.invitations import invite
from portico.features.people.recovery import ask_reset

pytestmark = pytest.mark.one_engine

HERE = Author(Actor(address="192.0.2.7"))


def texts(language: str) -> dict[str, dict[str, str]]:
    """What translators edit."""
    file = files("portico.features.mail") / "mails" / f"{language}.toml"
    return tomllib.loads(file.read_text("utf-8"))


def placeholders(text: str) -> set[str | None]:
    return {name for _, name, _, _ in Formatter().parse(text)} - {None}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_every_text_with_the_same_placeholders(language: str) -> None:
    own, first = texts(language), texts(LANGUAGES[0])
    assert own.keys() == first.keys() == {"words", *get_args(Kind)}
    for kind, parts in first.items():
        assert own[kind].keys() == parts.keys(), kind
        for part, text in parts.items():
            assert own[kind][part].strip(), (kind, part)
            assert placeholders(own[kind][part]) == placeholders(text), (kind, part)


SPOKEN = {"en": "en", "de": "de", "de-AT": "de", "DE-de": "de", "fr": "en", "den": "en"}


async def test_mail_is_in_the_language_of_the_profile_or_english(api: Api, post: Post) -> None:
    subjects = {"en": "Reset your Portico password", "de": "Ihr Passwort bei Portico zurücksetzen"}
    for tag, language in SPOKEN.items():
        user = await api.account(language=tag)
        await ask_reset(api.live, user.email, HERE)
        (message,) = await post.new()
        assert message["Subject"] == subjects[language]
        html = message.get_body(["html"])
        assert html is not None
        assert f'<html lang="{language}">' in html.get_content()
        assert link(message).startswith("https://localhost:8443/dashboard/reset?token=")
        if language == "de":
            text = words(message)
            assert "Auf dieser Seite können Sie ein neues Passwort festlegen:" in text
            assert "am 15.03.2026 um 12:00 Uhr (UTC) von der IP-Adresse 192.0.2.7 aus" in text
            assert "können" in html.get_content()


async def test_invitation_is_in_the_language_of_the_admin(api: Api, post: Post) -> None:
    api.live.has_mail_server = True
    admin = await api.account("admin", language="de")
    facts: dict[str, Any] = {"role": "viewer", "plan": "free", "handed_over": False}
    by = Author(Actor(user_id=admin.id, address="192.0.2.7"))
    await invite(api.live, email="a@example.com", by=by, **facts)
    await invite(api.live, email="b@example.com", by=OPERATOR, **facts)
    subjects = {message["To"]: message["Subject"] for message in await post.new()}
    assert subjects == {
        "a@example.com": "Ihre Einladung zu Portico",
        "b@example.com": "You are invited to Portico",
    }
