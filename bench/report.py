"""The results compared with the floors, as a table for people and JSON for programs."""

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from bench.load import Series


@dataclass(frozen=True)
class Finding:
    """One figure. A bound is met or missed; without one, the figure is for information."""

    row: str
    what: str
    value: float | None
    """None if it could not be measured; `note` says why."""
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    void: bool = False
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the bound is met; None without a bound."""
        if self.at_least is None and self.at_most is None and not self.void:
            return None
        if self.value is None or self.void:
            return False
        if self.at_least is not None and self.value < self.at_least:
            return False
        return self.at_most is None or self.value <= self.at_most

    @property
    def bound(self) -> str:
        """Such as `≥ 0.6`."""
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        return f"≤ {self.at_most:.3g}" if self.at_most is not None else ""

    @property
    def verdict(self) -> str:
        """One word for the table."""
        if self.void:
            return "VOID"
        return {None: "", True: "pass", False: "FAIL"}[self.met]


@dataclass
class Report:
    """Collects findings and the series behind them."""

    rounds: int
    seconds: int
    load_average: float = field(default_factory=lambda: os.getloadavg()[0])
    findings: list[Finding] = field(default_factory=list)
    series: list[tuple[str, Series]] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether no bound is missed, no run is void and everything was measured."""
        return all(finding.met is not False for finding in self.findings)

    def table(self) -> str:
        """Both tables, ready to print."""
        series = [*self._series_lines(), ""] if self.series else []
        return "\n".join([*series, *self._finding_lines()])

    def _series_lines(self) -> list[str]:
        head = f"{'row':11} {'series':38} {'requests/s':>11} {'lowest, highest':>16}"
        lines = [f"{head} {'p50 ms':>8} {'p99 ms':>8} {'CPU us':>7}"]
        for row, series in self.series:
            rates = [sample.per_second for sample in series.samples]
            spread = f"{min(rates):,.0f}, {max(rates):,.0f}"
            line = f"{row:11} {series.name:38} {series.per_second:>11,.0f} {spread:>16}"
            void = "  VOID" if series.void else ""
            cpu = "" if series.cpu_us is None else f"{series.cpu_us:.1f}"
            lines.append(f"{line} {series.p50_ms:>8.2f} {series.p99_ms:>8.2f} {cpu:>7}{void}")
        return lines

    def _finding_lines(self) -> list[str]:
        lines = [f"{'row':11} {'figure':58} {'measured':>14} {'floor':>9}  verdict"]
        for finding in self.findings:
            value = "-" if finding.value is None else f"{finding.value:,.3g} {finding.unit}"
            if finding.value is not None and finding.value >= 1000:
                value = f"{finding.value:,.0f} {finding.unit}"
            line = f"{finding.row:11} {finding.what:58} {value:>14} {finding.bound:>9}"
            lines.append(f"{line}  {finding.verdict:4} {finding.note}".rstrip())
        return lines

    def write_json(self, path: Path) -> None:
        """Writes all measurements, with the machine and the versions."""
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "rounds": self.rounds,
            "seconds": self.seconds,
            "passed": self.passed,
            "machine": {**_machine(), "load_average_at_start": self.load_average},
            "versions": _versions(),
            "findings": [
                {
                    "row": finding.row,
                    "what": finding.what,
                    "value": finding.value,
                    "unit": finding.unit,
                    "at_least": finding.at_least,
                    "at_most": finding.at_most,
                    "met": finding.met,
                    "void": finding.void,
                    "note": finding.note,
                }
                for finding in self.findings
            ],
            "series": [{"row": row, **series.as_json()} for row, series in self.series],
        }
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _machine() -> dict[str, object]:
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {"cpu": model, "cpus": os.cpu_count(), "kernel": platform.release()}


def _versions() -> dict[str, str]:
    found = {name: version(name) for name in ("portico", "granian", "uvloop", "apsw", "asyncpg")}
    found["python"] = platform.python_version()
    found["node"] = _said("node", "--version")
    found["pocketbase"] = _said(
        shutil.which("pocketbase", path=str(Path(sys.executable).parent)) or "", "--version"
    )
    for name in ("fastify", "better-sqlite3", "pg", "ioredis"):
        installed = Path(__file__).parent / "fastify" / "node_modules" / name / "package.json"
        if installed.exists():
            found[name] = json.loads(installed.read_text())["version"]
    return found


def _said(*argv: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except OSError:
        return "absent"
    return done.stdout.strip()
