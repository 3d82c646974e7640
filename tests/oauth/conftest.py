"""One server for all tests of OAuth, and a user with a browser for each."""

from collections.abc import Iterator

import pytest

from oauth.authority import GOODBYE, NATIVE_APP, WEB_APP, Authority, Registered, serving
from oauth.visiting import Browser


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    """The running server."""
    with serving(tmp_path_factory.mktemp("authority")) as running:
        yield running


@pytest.fixture(scope="session")
def web_app(authority: Authority) -> Registered:
    """A client with a secret."""
    return authority.register(WEB_APP, "--post-logout-redirect-uri", GOODBYE)


@pytest.fixture(scope="session")
def native_app(authority: Authority) -> Registered:
    """A client without one."""
    return authority.register(NATIVE_APP, "--public", name="Till")


@pytest.fixture
def browser(authority: Authority) -> Iterator[Browser]:
    """The browser of a new editor."""
    with authority.browser() as opened:
        yield opened


@pytest.fixture
def trusted(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has Requests trust the server."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.certificate))
