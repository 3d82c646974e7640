"""What a capacity plan says follows from what was measured, and the guide shows what it says."""

import pytest
from bench.capacity import (
    FIGURES,
    Plan,
    figures_of,
    main,
    needs,
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
