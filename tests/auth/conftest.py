"""The application on both engines, as for the contract, and a visitor who calls it."""

import pytest

from authorizing import Person
from contract.conftest import api, environ
from driving import Api
from portico.features.access.clients import Registered
from signing_in import PASSWORD, Visitor, client_of

__all__ = ["ada", "api", "environ", "shop", "till", "visitor"]


@pytest.fixture
def visitor(api: Api) -> Visitor:
    """Somebody without a credential."""
    return Visitor(api)


@pytest.fixture
async def shop(api: Api) -> Registered:
    """A confidential client."""
    return await client_of(api.live, await api.account())


@pytest.fixture
async def till(api: Api) -> Registered:
    """A public client."""
    return await client_of(api.live, await api.account(), public=True)


@pytest.fixture
async def ada(api: Api) -> Person:
    """An editor who is signed in at the authorization server."""
    person = Person(api, await api.account("editor", password=PASSWORD))
    await person.sign_in()
    return person
