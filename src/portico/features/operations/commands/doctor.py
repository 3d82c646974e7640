"""`portico doctor`: what is wrong with this installation, and what to do about it."""

import asyncio
import logging
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Iterator

from portico.cli.output import RED, YELLOW, answer, painted
from portico.features.operations.commands import checks, network_checks
from portico.features.operations.commands.checks import Finding, all_of, certificate, ok
from portico.features.operations.commands.network_checks import server
from portico.settings import Settings


def run(settings: Settings, chosen: Namespace) -> int:
    """Prints every finding; returns 1 if one of them is a problem."""
    logging.getLogger("portico").addHandler(logging.NullHandler())  # findings report it all
    findings = asyncio.run(_examine(settings))
    problems = sum(not finding.ok for finding in findings)
    lines = [_line(finding) for finding in findings]
    verdict = painted(RED, f"Problems: {problems}.", sys.stdout)
    lines.append(verdict if problems else "No problems found.")
    answer({"ok": not problems, "findings": findings}, "\n".join(lines), as_json=chosen.json)
    return 1 if problems else 0


async def _examine(settings: Settings) -> list[Finding]:
    each: tuple[tuple[str, Iterator[Finding] | AsyncIterator[Finding]], ...] = (
        ("data directory", checks.data_directory(settings)),
        ("restore", checks.restore(settings)),
        ("secret files", checks.secret_files(settings)),
        ("audit archive", checks.audit_archive(settings)),
        ("certificate", certificate(settings)),
        ("databases", checks.databases(settings)),
        ("standbys", network_checks.replicas(settings)),
        ("Valkey", network_checks.valkey(settings)),
        ("TLS to stores", network_checks.store_tls(settings)),
        ("mail", network_checks.mail(settings)),
        ("collector", network_checks.collector(settings)),
        ("server", server(settings)),
    )
    # Invalid settings have ended the command before this.
    found = [ok("settings", "valid")]
    for check, findings in each:
        found += [finding async for finding in all_of(check, findings)]
    return found


def _line(finding: Finding) -> str:
    if not finding.ok:
        mark = painted(RED, "PROBLEM", sys.stdout)
    else:
        mark = painted(YELLOW, "notice ", sys.stdout) if finding.advice else "ok     "
    line = f"{mark}  {finding.check}: {finding.message}"
    return f"{line}\n         -> {finding.advice}" if finding.advice else line
