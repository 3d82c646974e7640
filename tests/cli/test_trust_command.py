"""How a machine comes to trust the local authority."""

import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from operating import Installation
from portico.features.operations.certificates import ensure
from portico.features.operations.commands.trust import install, stores

NOON = 1_773_576_000_000


def nss_alone(program: str) -> str | None:
    """A machine with nothing but the stores of browsers."""
    return shutil.which(program) if program == "certutil" else None


def test_browsers_trust_the_authority_once_it_is_installed(tmp_path: Path) -> None:
    authority = ensure(tmp_path / "tls", ["localhost"], NOON).ca_certificate
    profile = tmp_path / ".mozilla" / "firefox" / "one.default"
    profile.mkdir(parents=True)
    making = ["certutil", "-N", "--empty-password", "-d", f"sql:{profile}"]
    subprocess.run(making, check=True)
    before = ["certutil", "-A", "-d", f"sql:{profile}", "-n", "Portico local authority"]
    subprocess.run([*before, "-t", "C,,", "-i", str(authority)], check=True)  # as it was named once
    for _ in range(2):  # again, it changes nothing
        here = [store for store in stores(authority, tmp_path, nss_alone) if store.here]
        assert [store.name for store in here] == [
            "Chrome and Chromium on Linux",
            "Firefox on Linux",
        ]
        for store in here:
            install(store)
    for place in (tmp_path / ".pki" / "nssdb", profile):
        listing = ["certutil", "-L", "-d", f"sql:{place}"]
        listed = subprocess.run(listing, check=True, capture_output=True, text=True).stdout
        assert listed.count("Portico local authority") == 1
        assert "C,," in listed


def test_every_system_is_told_and_nothing_is_done_unasked(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    missing = f"{installation.data / 'tls' / 'ca.pem'} does not exist yet"
    assert installation.refused("trust") == (
        1,
        f"{missing}: portico init or portico serve creates it.",
    )
    installation.data.mkdir()
    authority = ensure(installation.data / "tls", ["localhost"], NOON).ca_certificate
    told = installation.told("trust")
    assert told["ca_certificate"] == str(authority)
    commands = [command for store in told["stores"] for command in store["commands"]]
    assert any("update-ca-certificates" in command for command in commands)
    assert sum(str(authority) in shlex.split(command) for command in commands) >= 5
    text = installation.run("trust").stdout
    assert all(store["name"] in text for store in told["stores"])
    own = installation.having(tls_cert=str(authority), tls_key=str(authority))
    assert "not used" in own.refused("trust")[1]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "certutil").symlink_to(str(shutil.which("certutil")))
    unanswered = replace(installation, path=tmp_path / "bin").run("trust", "--install")
    assert unanswered.returncode == 1
    assert "certutil -A" in unanswered.stderr
    assert unanswered.stderr.endswith("portico: Nothing was changed.\n")
