"""The application on both engines, as for the contract, and a visitor who calls it."""

import pytest

from contract.conftest import api, environ
from driving import Api
from signing_in import Visitor

__all__ = ["api", "environ", "visitor"]


@pytest.fixture
def visitor(api: Api) -> Visitor:
    """Somebody without a credential."""
    return Visitor(api)
