"""Bars of a chart, as shapes of a picture."""

from collections.abc import Mapping
from typing import NamedTuple

from portico.domain.requests import Sums
from portico.storage.requests import Span

WIDTH, HEIGHT = 900, 160

_LEAST = 2
"""How high the smallest part of a bar is."""


class Part(NamedTuple):
    """What was answered, failed or refused in one unit of time, and where that is of its bar."""

    kind: str
    y: int
    height: int


class Bar(NamedTuple):
    """One unit of time: its beginning in epoch milliseconds, its requests, where its bar is, and
    the parts of that from the ground up."""

    at: int
    sums: Sums
    x: int
    width: int
    parts: list[Part]


class Chart(NamedTuple):
    """A span of time, the oldest first, and its requests in all."""

    bars: list[Bar]
    total: Sums
    most: int
    """How many requests the tallest bar stands for."""
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def shapes(self) -> dict[str, str]:
        """Each kind's parts of all bars as one shape (the `d` of an SVG path), so that a page has
        few elements: lines down the middle, as wide as a bar, whose dashes tell the kinds apart
        where colours do not."""
        shapes: dict[str, str] = {}
        for bar in self.bars:
            for part in bar.parts:
                drawn = f"M{bar.x + bar.width // 2} {part.y}v{part.height}"
                shapes[part.kind] = shapes.get(part.kind, "") + drawn
        return shapes


def chart(use: Mapping[int, Sums], span: Span, now: int) -> Chart:
    """The chart of a span of requests. The tallest bar is as high as the picture, and nothing that
    was is left without a trace."""
    units = range(span.first(now), span.first(now) + span.units)
    shown = [use.get(unit, Sums()) for unit in units]
    most = max(sums.requests for sums in shown)
    step = WIDTH // span.units
    gap = max(step // 4, 2)
    bars = [
        Bar(
            unit * span.milliseconds,
            sums,
            place * step + gap // 2,
            step - gap,
            _parts(sums, most),
        )
        for place, (unit, sums) in enumerate(zip(units, shown, strict=True))
    ]
    return Chart(bars, sum(shown, Sums()), most, step * span.units)


def _parts(sums: Sums, most: int) -> list[Part]:
    kinds = {"answered": sums.answered, "failed": sums.failed, "refused": sums.refused}
    kinds = {kind: requests for kind, requests in kinds.items() if requests}
    if not kinds:
        return []
    whole = max(sums.requests * HEIGHT // most, _LEAST * len(kinds))
    heights = {
        kind: max(requests * whole // sums.requests, _LEAST) for kind, requests in kinds.items()
    }
    heights[max(kinds, key=kinds.__getitem__)] += whole - sum(heights.values())
    parts, y = [], HEIGHT
    for kind, height in heights.items():
        y -= height
        parts.append(Part(kind, y, height))
    return parts
