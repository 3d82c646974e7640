"""How a machine comes to trust the local authority."""

import json
import os
import re
import shlex
import shutil
import subprocess
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from driving import settings_for
from operating import COMMAND, Installation
from portico.cli.output import CommandError
from portico.features.operations.certificates import ensure
from portico.features.operations.commands.trust import Store, install, run, stores

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


def test_browsers_trust_an_authority_that_took_anothers_place(tmp_path: Path) -> None:
    store = tmp_path / ".pki" / "nssdb"
    trusted = []
    for hosts in (["localhost"], ["portico.example.com"]):
        authority = ensure(tmp_path / "tls", hosts, NOON).ca_certificate
        for known in stores(authority, tmp_path, nss_alone):
            if known.name == "Chrome and Chromium on Linux":
                install(known)
        trusted.append(authority.read_text().strip())
    listing = ["certutil", "-L", "-d", f"sql:{store}"]
    listed = subprocess.run(listing, check=True, capture_output=True, text=True).stdout
    names = re.findall(r"^(Portico local authority \w+) +C,,", listed, re.MULTILINE)
    found = [
        subprocess.run([*listing, "-a", "-n", name], check=True, capture_output=True, text=True)
        for name in names
    ]
    assert sorted(one.stdout.replace("\r", "").strip() for one in found) == sorted(trusted)


def test_a_command_that_fails_is_named() -> None:
    with pytest.raises(CommandError, match="Somewhere: `false` failed"):
        install(Store("Somewhere", (("false",),), here=True))


def test_who_has_no_home_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure(tmp_path / "tls", ["localhost"], NOON)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 2)  # of whom the system has no entry
    with pytest.raises(CommandError, match="set HOME"):
        run(settings_for(tmp_path, {}), Namespace(install=False, json=False))


def test_what_was_installed_is_one_json_value_whatever_its_commands_print(tmp_path: Path) -> None:
    installation = replace(Installation(tmp_path), path=tmp_path / "bin")
    installation.data.mkdir()
    authority = ensure(installation.data / "tls", ["localhost"], NOON).ca_certificate
    (tmp_path / "bin").mkdir()
    for program in ("sudo", "install", "update-ca-certificates"):
        file = tmp_path / "bin" / program
        file.write_text(f"#!/bin/sh\necho {program} runs\n")
        file.chmod(0o755)

    done = subprocess.run(
        [*COMMAND, "trust", "--install", "--json"],
        env=installation.environment | {"HOME": str(tmp_path)},
        input="y\n",
        capture_output=True,
        text=True,
        check=True,
    )

    told = json.loads(done.stdout)
    assert told["ca_certificate"] == str(authority)
    assert [(one["here"], len(one["commands"])) for one in told["stores"]] == [(True, 2)]
    assert "update-ca-certificates" in told["stores"][0]["commands"][1]
    assert " runs\n" in done.stderr


def test_an_answer_that_is_no_text_is_no_yes(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    installation.data.mkdir()
    ensure(installation.data / "tls", ["localhost"], NOON)
    done = subprocess.run(
        [*COMMAND, "trust", "--install"],
        env=installation.environment | {"PYTHONIOENCODING": "utf-8:strict"},
        input=b"\xff\n",
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


def test_a_closed_standard_input_is_an_empty_one(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    installation.data.mkdir()
    ensure(installation.data / "tls", ["localhost"], NOON)
    closed = ["sh", "-c", 'exec "$@" <&-', "sh", *COMMAND]
    for words, told in (
        (["trust", "--install"], "Nothing was changed."),
        (["products", "import", "-"], "There is no Portico in"),
    ):
        done = subprocess.run(
            [*closed, *words],
            env=installation.environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert told in done.stderr
        assert "Traceback" not in done.stderr


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
