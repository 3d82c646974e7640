"""The application on both engines, as for the contract, and authorities that the system trusts."""

from pathlib import Path

import pytest

from contract.conftest import api, contract_database, environ
from mail_server import Authority, authority
from serving.conftest import first_installation, installation

__all__ = ["api", "contract_database", "environ", "first_installation", "installation", "trusted"]


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """An authority that is in the system's store, for as long as the test runs."""
    made = authority(tmp_path / "authority")
    monkeypatch.setenv("SSL_CERT_FILE", str(made.certificate))
    return made
