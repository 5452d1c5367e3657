"""Plots of the report as SVG with the colours of the page, readable on light and dark backgrounds."""

import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import matplotlib as mpl
from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

LINES_MAX: Final = 8
"""Only the worst groups are plotted, each in its own colour; the tables contain all groups."""
_COLOURS: Final = ("#3987e5", "#e0701f", "#1f9d6b", "#a45ee5", "#d6456b", "#8a8f1a", "#14a3b8", "#b07a4a")
# Placeholder colours, replaced by those of the page.
_TEXT: Final = ("#010203", "currentColor")
_GRID: Final = ("#010204", "var(--line)")
_SIZE: Final = (9.0, 3.2)

Row = Mapping[str, Any]


def plot_lines(
    name: str,
    groups: Sequence[tuple[str, Sequence[Row]]],
    column: str,
    unit: str,
    window: tuple[int, int],
    bucket_ms: int,
) -> str:
    """Plot a line for each group over time; it breaks where the value is unknown. `name` makes the ids unique within the page."""
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif", "font.size": 10}
    with mpl.rc_context(settings):
        figure = Figure(figsize=_SIZE, layout="constrained")
        axes = figure.add_subplot()
        for (label, rows), colour in zip(groups[:LINES_MAX], _COLOURS, strict=False):
            times, values = _with_breaks(rows, column, bucket_ms)
            axes.plot(times, values, color=colour, linewidth=1.8, label=label, marker=".", markersize=3)
        _style(axes, unit, window)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    text = out.getvalue()
    for sentinel, colour in (_TEXT, _GRID):
        text = text.replace(sentinel, colour)
    return text[text.index("<svg") :]


def legend(labels: Sequence[str]) -> list[tuple[str, str]]:
    """The colour and label of each line."""
    return list(zip(_COLOURS, labels[:LINES_MAX], strict=False))


def _with_breaks(rows: Sequence[Row], column: str, bucket_ms: int) -> tuple[list[float], list[float]]:
    times: list[float] = []
    values: list[float] = []
    before = None
    for row in rows:
        at = row["bucket_ms"]
        if before is not None and at - before > bucket_ms:
            times.append(_time(before + bucket_ms))
            values.append(float("nan"))
        times.append(_time(at))
        values.append(float("nan") if row[column] is None else row[column])
        before = at
    return times, values


def _style(axes: Axes, unit: str, window: tuple[int, int]) -> None:
    text, grid = _TEXT[0], _GRID[0]
    locator = dates.AutoDateLocator(tz=UTC)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=UTC))  # type: ignore[no-untyped-call]
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlim(_time(window[0]), _time(max(window[1], window[0] + 1)))
    axes.set_ylim(bottom=0)
    axes.set_ylabel(unit, color=text)
    axes.tick_params(colors=text, which="both")
    axes.xaxis.get_offset_text().set_color(text)
    axes.grid(visible=True, axis="y", color=grid, linewidth=0.8)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(grid)


def _time(at_ms: int) -> float:
    """The time in days, as matplotlib expects."""
    return float(dates.date2num(datetime.fromtimestamp(at_ms / 1000, UTC)))  # type: ignore[no-untyped-call]
