"""Bar charts of requests, as coordinates for SVG."""

from collections.abc import Mapping
from itertools import count
from typing import NamedTuple

from portico.core.requests import Sums
from portico.features.operations.requests import Span

WIDTH, HEIGHT = 900, 160

_LEAST = 2
"""The height of the smallest part of a bar."""


class Segment(NamedTuple):
    """The answered, failed or refused requests of one bar, and their place in it."""

    kind: str
    y: int
    height: int


class Bar(NamedTuple):
    """One unit of time: its start in epoch milliseconds, its requests, the place of its bar, and
    the bar's parts from the bottom up."""

    at: int
    sums: Sums
    x: int
    width: int
    parts: list[Segment]


class Chart(NamedTuple):
    """The bars of a span of time, the oldest first, and its requests in total."""

    bars: list[Bar]
    total: Sums
    levels: list[int]
    """The numbers of requests at the lines of the scale, the highest first, 0 last."""
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def lines(self) -> str:
        """The lines of the scale as one SVG path (`d`)."""
        last = len(self.levels) - 1
        return "".join(f"M0 {HEIGHT * line // last}H{self.width}" for line in range(last + 1))

    @property
    def marks(self) -> list[Bar]:
        """The bars at which the time is written: three or four, equally far apart."""
        return self.bars[:: len(self.bars) // (4 if len(self.bars) % 4 == 0 else 3)]

    @property
    def shapes(self) -> dict[str, str]:
        """For each kind, its parts in all bars as one SVG path (`d`), so that a page has few
        elements. They are lines as wide as a bar, whose dashes tell the kinds apart without
        colours."""
        shapes: dict[str, str] = {}
        for bar in self.bars:
            for part in bar.parts:
                drawn = f"M{bar.x + bar.width // 2} {part.y}v{part.height}"
                shapes[part.kind] = shapes.get(part.kind, "") + drawn
        return shapes


def chart(use: Mapping[int, Sums], span: Span, now: int) -> Chart:
    """The chart of a span of requests. Even the smallest count is visible."""
    units = range(span.first(now), span.first(now) + span.units)
    shown = [use.get(unit, Sums()) for unit in units]
    levels = _levels(max(sums.requests for sums in shown))
    step = WIDTH // span.units
    gap = max(step // 4, 2)
    bars = [
        Bar(
            unit * span.milliseconds,
            sums,
            place * step + gap // 2,
            step - gap,
            _parts(sums, levels[0]),
        )
        for place, (unit, sums) in enumerate(zip(units, shown, strict=True))
    ]
    return Chart(bars, sum(shown, Sums()), levels, step * span.units)


def _levels(most: int) -> list[int]:
    """The scale up to `most` or a little more: at most four steps of 1, 2 or 5 times a power of
    ten."""
    steps = (one * 10**power for power in count() for one in (1, 2, 5))
    step = next(step for step in steps if 4 * step >= most)
    return [step * number for number in range(max(-(-most // step), 1), -1, -1)]


def _parts(sums: Sums, top: int) -> list[Segment]:
    kinds = {"answered": sums.answered, "failed": sums.failed, "refused": sums.refused}
    kinds = {kind: requests for kind, requests in kinds.items() if requests}
    if not kinds:
        return []
    whole = max(sums.requests * HEIGHT // top, _LEAST * len(kinds))
    heights = {
        kind: max(requests * whole // sums.requests, _LEAST) for kind, requests in kinds.items()
    }
    heights[max(kinds, key=kinds.__getitem__)] += whole - sum(heights.values())
    parts, y = [], HEIGHT
    for kind, height in heights.items():
        y -= height
        parts.append(Segment(kind, y, height))
    return parts
