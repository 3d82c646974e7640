"""What a capacity plan says follows from what was measured, and the guide shows what it says."""

import re
from dataclasses import replace

import pytest
from bench.capacity import (
    FIGURES,
    Plan,
    figures_of,
    main,
    needs,
    report,
)

from documents import document

GUIDE = document("docs/scaling.md")
PLAN = Plan()
MEASURED = figures_of(FIGURES)


def amounts(plan: Plan, figures: dict[str, float]) -> dict[str, float]:
    return {need.what: need.amount for need in needs(plan, figures)}


@pytest.mark.parametrize("name", sorted(MEASURED))
def test_every_figure_that_was_measured_is_used(name: str) -> None:
    changed = {**MEASURED, name: MEASURED[name] * 1_000}
    assert amounts(PLAN, changed) != amounts(PLAN, dict(MEASURED))


def test_twice_the_requests_are_twice_the_cores_and_rows_alone_are_none() -> None:
    figures = dict(MEASURED)
    once, twice = (amounts(replace(PLAN, requests=n), figures) for n in (1_000, 2_000))
    for what in ("PostgreSQL's primary", "Redis, which has one thread"):
        assert twice[what] == pytest.approx(2 * once[what])
    more = amounts(replace(PLAN, accounts=10 * PLAN.accounts), figures)
    assert more["PostgreSQL's primary"] == once["PostgreSQL's primary"]
    disk = "PostgreSQL's disk, as much again for the standby"
    assert more[disk] > once[disk]


def test_what_is_short_is_told_with_what_to_do_the_shortest_first() -> None:
    found = needs(replace(PLAN, requests=1e5, products=1e8, accounts=1e7), MEASURED)
    told = re.findall(r"^\d+\. (.+?): ", report(found), re.MULTILINE)
    short = [need for need in found if need.share > 1]
    assert len(told) == len(short) > 1
    assert told == [need.what for need in sorted(short, key=lambda need: -need.share)]
    assert "What is short" not in report(needs(replace(PLAN, requests=10), MEASURED))


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (block.text, GUIDE.blocks[number + 1].text)
        for number, block in enumerate(GUIDE.blocks)
        if block.text.startswith(".venv/bin/python -m bench.capacity") and "\n." not in block.text
    ],
)
def test_the_guide_shows_what_the_program_says(
    command: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(command.split()[3:])
    assert capsys.readouterr().out == shown
