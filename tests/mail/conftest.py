"""The application on both engines, as for the contract, its mail, and authorities that the system
trusts."""

import email
import re
from email.message import EmailMessage
from email.policy import default
from pathlib import Path

import pytest

from contract.conftest import api, environ
from driving import Api
from mail_server import Authority, authority
from serving.conftest import first_installation, installation

__all__ = ["api", "environ", "first_installation", "installation"]


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """An authority that is in the system's store, for as long as the test runs."""
    made = authority(tmp_path / "authority")
    monkeypatch.setenv("SSL_CERT_FILE", str(made.certificate))
    return made


class Post:
    """The mail of an application that has no mail server."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._read: set[Path] = set()

    async def new(self) -> list[EmailMessage]:
        """The messages that came since the last call, once all are written."""
        await self._api.mailed()
        directory = self._api.settings.data / "log"
        new = set(directory.glob("*")) - self._read
        self._read |= new
        messages = [email.message_from_bytes(f.read_bytes(), policy=default) for f in sorted(new)]
        assert all(isinstance(message, EmailMessage) for message in messages)
        return messages

    async def link(self) -> str:
        """The link in the one message that is new and has a token."""
        (found,) = (link(one) for one in await self.new() if "?token=" in str(one))
        return found

    async def token(self) -> str:
        """The token in that message."""
        return (await self.link()).partition("?token=")[2]


def link(message: EmailMessage) -> str:
    """The link in a message, which is the same in both of its parts."""
    plain, html = message.get_body(["plain"]), message.get_body(["html"])
    assert plain is not None
    assert html is not None
    (found,) = re.findall(r"^https://\S+$", plain.get_content(), re.MULTILINE)
    assert re.findall(r'href="([^"]*)"', html.get_content()) == [found]
    return str(found)


def words(message: EmailMessage) -> str:
    """The plain text of a message."""
    body = message.get_body(["plain"])
    assert body is not None
    return str(body.get_content())


@pytest.fixture
def post(api: Api) -> Post:
    """The application's mail."""
    return Post(api)
