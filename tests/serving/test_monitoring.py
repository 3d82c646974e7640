"""The dashboard and the alert rules ask for what the server tells."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped] # it ships none
from prometheus_client.parser import text_string_to_metric_families

from documents import ROOT, document
from operating import Installation, until
from portico.features.operations.tidy import TIDY_PERIOD
from servers import PostgresServer

RUNBOOK = document("docs/operations/troubleshooting.md")
METRIC = re.compile(r"\b(portico_\w+|up)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
SUCCESS = re.compile(r'last_success_timestamp_seconds\{environment="live",job="(\w+)"')
JOBS = {"flush", "tidy"}
"""Those whose last success the rules ask for."""
GROUPED = re.compile(r"\bby \(([^)]*)\)")
SHOWN = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")


def rules() -> list[dict[str, Any]]:
    """The alert rules."""
    groups = yaml.safe_load((ROOT / "deploy" / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def asked() -> Iterator[tuple[str, str]]:
    """Each expression, with the text that shows its labels."""
    dashboard = json.loads((ROOT / "deploy" / "grafana.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]
    for variable in dashboard["templating"]["list"][1:]:
        name, label = variable["definition"].removeprefix("label_values(")[:-1].split(", ")
        yield f"sum by ({label}) ({name})", ""
    for rule in rules():
        yield rule["expr"], json.dumps(rule["annotations"])


def told_by(installation: Installation) -> dict[str, set[tuple[str, str]]]:
    """The labels of each metric, with their values, once every job has run that they tell of."""
    with installation.serving() as service:
        service.ask("/v1/users/me")

        def text() -> str:
            shown = service.ask("/metrics").text
            return shown if {*SUCCESS.findall(shown)} >= JOBS else ""

        told: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for family in text_string_to_metric_families(until(text, "the first runs")):
            for sample in family.samples:
                told[sample.name] |= set(sample.labels.items())
    return told


def seconds_until_it_fires(alert: str, succeeded_at: float) -> float:
    """How long after the start of a server whose job last did what it is for `succeeded_at` seconds
    after that, by a clock that was set long ago, an alert of its silence fires."""
    (rule,) = (rule for rule in rules() if rule["alert"] == alert)
    silent = re.fullmatch(r"time\(\) - portico_job_last_success\S+ > (\d+)", rule["expr"])
    assert silent is not None
    return max(succeeded_at + int(silent[1]), 0) + int(rule["for"].removesuffix("m")) * 60


def test_every_alert_leads_to_its_section_of_the_runbook_and_none_is_without() -> None:
    sections = re.findall(r"^### (\w+)$", RUNBOOK.text, re.MULTILINE)
    assert sorted(sections) == sorted(rule["alert"] for rule in rules())
    for rule in rules():
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert document(page) == RUNBOOK
        assert anchor == rule["alert"].lower()
        assert anchor in RUNBOOK.anchors


def test_every_job_is_in_the_runbook_as_in_the_table_of_metrics() -> None:
    jobs = re.findall(r"^- `(\w+)`: ", RUNBOOK.text, re.MULTILINE)
    meanings = {
        row[0]: row[-1] for row in document("docs/operations/monitoring.md").rows("metrics")
    }
    meaning = meanings["portico_job_last_success_timestamp_seconds"]
    told = meaning.partition("Jobs are ")[2].partition(".")[0].split(", ")
    assert [job for job in jobs if job in told] == told


def test_first_tidy_may_take_an_hour_and_none_for_two_hours_is_told() -> None:
    never = -1e9  # no success is 0 in Unix time
    assert seconds_until_it_fires("PorticoNotTidied", never) > TIDY_PERIOD
    after_the_last = seconds_until_it_fires("PorticoNotTidied", 0.0)
    assert 2 * TIDY_PERIOD < after_the_last < 2.2 * TIDY_PERIOD


def test_every_metric_and_label_that_is_asked_for_exists(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    url = postgres.fresh_database()
    told = told_by(Installation(tmp_path).having(database_url=url, database_read_url=url))
    told["up"] = {("job", "portico"), ("instance", "")}  # Prometheus's own, for each target
    labels = {metric: {label for label, _ in found} for metric, found in told.items()}
    expressions = list(asked())
    assert len(expressions) > 20
    for expression, shown in expressions:
        assert expression.count("(") == expression.count(")"), expression
        named = METRIC.findall(expression)
        assert named, expression
        has = {"instance"}  # which Prometheus adds
        for metric, matchers in named:
            assert metric in labels, expression
            for label, relation, value in MATCHER.findall(matchers):
                assert label in labels[metric], expression
                assert relation != "=" or (label, value) in told[metric], expression
            has |= labels[metric]
        grouped = {label.strip() for by in GROUPED.findall(expression) for label in by.split(",")}
        assert grouped <= has, expression
        assert set(SHOWN.findall(shown)) <= (grouped or has), expression
