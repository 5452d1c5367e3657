"""The report as one self-contained HTML page: every number of the document, with its definition."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any, Final

from isthmus_lag.explanations import DEFINITIONS, LABELS
from isthmus_lag.plots import LINES_MAX, legend, plot_lines
from isthmus_lag.report import Document, moment

_TIMES: Final = frozenset({"from_ms", "to_ms", "worst_at_ms"})
_SPANS: Final = frozenset({"silent_ms", "interval_ms"})
_GROUPS: Final = {"link": "By link", "regions": "By pair of regions", "topic": "By topic", "kind": "By kind of copy"}
_IDS: Final = frozenset({"source_cluster", "target_cluster"})


def page(report: Document) -> str:
    """Render the page."""
    window = report["window"]
    span = f"{moment(window['from_ms'])} to {moment(window['to_ms'])} UTC"
    style = (files("isthmus_lag") / "page.css").read_text()
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width, initial-scale=1"><meta name=color-scheme content="light dark">',
        f"<title>Lag report, {span}</title><style>{style}</style></head><body><main>",
        f"<header><h1>Lag report</h1><p>{span}</p></header>",
        _summary(report),
        _objectives(report["objectives"]),
        _section("rpo", "Potential loss (RPO)", DEFINITIONS["rpo"], [_plots(report), _groups(report["rpo"])]),
        _section("lag", "Lag of single copies", DEFINITIONS["lag"], [_groups(report["lag"])]),
        _section("worst", "Worst copies", DEFINITIONS["worst_copies"], [_table(report["worst_copies"])]),
        _section("gaps", "Gaps", DEFINITIONS["gaps"], [_table(report["gaps"], "None.")]),
        f"<footer><p>{escape(DEFINITIONS['percentiles'])} {escape(DEFINITIONS['never'])}</p></footer>",
        "</main></body></html>\n",
    ]
    return "".join(parts)


def _summary(report: Document) -> str:
    samples, window = report["samples"], report["window"]
    tiles = [
        ("Samples", _number(samples["samples"]), "in the window, without duplicates"),
        ("Copies", _number(samples["copies"]), f"of {_number(samples['partitions'])} partitions"),
        ("Interval", _span(samples["interval_ms"]), f"between samples; moments are {_span(window['step_ms'])} apart"),
        ("Gaps", _number(len(report["gaps"]["rows"]) + report["gaps"]["left_out"]), "times without samples"),
        ("Records read", _number(samples["records"]), f"{_number(samples['later_versions'])} of a later version"),
        ("Not samples", _number(samples["corrupt"]), "records that could not be read"),
    ]
    drawn = "".join(f"<div><dt>{name}</dt><dd>{value}</dd><p>{note}</p></div>" for name, value, note in tiles)
    reasons = "".join(
        f"<li>{_number(row['count'])} times: {escape(row['reason'])}</li>" for row in samples["corrupt_reasons"]
    )
    return f"<dl class=tiles>{drawn}</dl>" + (f"<ul>{reasons}</ul>" if reasons else "")


def _objectives(objectives: Sequence[Document]) -> str:
    if not objectives:
        return ""
    blocks = []
    for one in objectives:
        blocks.append(f"<h3>{escape(one['objective'])}</h3>{_table(one['shares'], 'No samples.')}")
        if one["misses"]["rows"]:
            blocks.append(f"<details open><summary>When it was missed</summary>{_table(one['misses'])}</details>")
    return _section("objectives", "Objectives", DEFINITIONS["objectives"], blocks)


def _section(anchor: str, title: str, definition: str, blocks: Iterable[str]) -> str:
    return f"<section id={anchor}><h2>{title}</h2><p class=means>{escape(definition)}</p>{''.join(blocks)}</section>"


def _groups(tables: Document) -> str:
    return "".join(f"<h3>{title}</h3>{_table(tables[name])}" for name, title in _GROUPS.items())


def _plots(report: Document) -> str:
    drawn = []
    for name, column, unit, title in (
        ("link", "rpo_ms", "ms", "Potential loss in time, by link"),
        ("link", "rpo_records", "records", "Potential loss in records, by link"),
        ("regions", "rpo_ms", "ms", "Potential loss in time, by pair of regions"),
    ):
        drawn.append(_plot(report, name, column, unit, title))
    return "".join(drawn)


def _plot(report: Document, name: str, column: str, unit: str, title: str) -> str:
    """Plot the groups in the order of their table, the worst first."""
    window, rows = report["window"], report["series"][name]
    keys = [key for key in rows[0] if key not in ("bucket_ms", "rpo_ms", "rpo_records", "never")]
    order = [tuple(row[key] for key in keys) for row in report["rpo"][name]["rows"]][:LINES_MAX]
    groups = [(_name(key, keys), [row for row in rows if tuple(row[k] for k in keys) == key]) for key in order]
    bounds = (window["from_ms"], window["to_ms"])
    drawn = plot_lines(f"{name}-{column}", groups, column, unit, bounds, window["bucket_ms"])
    names = [label for label, _ in groups]
    keyed = "".join(f'<li><i style="background:{colour}"></i>{escape(label)}</li>' for colour, label in legend(names))
    left_out = len(report["rpo"][name]["rows"]) + report["rpo"][name]["left_out"] - len(groups)
    more = f"; {left_out} more in the table" if left_out > 0 else ""
    caption = (
        f"{title}: the worst of every {_span(window['bucket_ms'])}{more}. A line breaks where the value is unknown."
    )
    return f"<figure><figcaption>{caption}</figcaption><div class=scroll>{drawn}</div><ul class=legend>{keyed}</ul></figure>"


def _name(key: Sequence[Any], keys: Sequence[str]) -> str:
    group = dict(zip(keys, key, strict=True))
    if "source_region" in group:
        return f"{group['kind']}s, {group['source_region'] or 'no region'} → {group['target_region'] or 'no region'}"
    if group["link"]:
        return f"{group['kind']} {group['link']}"
    return f"{group['kind']}s of {_short(group['target_cluster'])}"


def _table(table: Document, nothing: str = "") -> str:
    rows = table["rows"]
    if not rows:
        return f"<p>{nothing}</p>"
    columns = [name for name in rows[0] if any(row[name] not in ("", None) for row in rows)]
    head = "".join(f"<th{_class(rows, name)}>{escape(LABELS.get(name, name))}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td{_class(rows, name)}>{_cell(name, row[name])}</td>" for name in columns) + "</tr>"
        for row in rows
    )
    more = f"<p>{_number(table['left_out'])} more are left out.</p>" if table["left_out"] else ""
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}"


def _class(rows: Sequence[Document], name: str) -> str:
    is_number = name not in _TIMES and any(isinstance(row[name], int | float) for row in rows)
    return " class=n" if is_number else ""


def _cell(name: str, value: Any) -> str:
    if value is None or value == "":
        return "&ndash;"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in _TIMES:
        return moment(value)
    if name in _SPANS:
        return _span(value)
    if name == "met_share":
        return f"{value * 100:.2f} %"
    if name in _IDS:
        return f'<span title="{escape(value)}">{escape(_short(value))}</span>'
    return _number(value) if isinstance(value, int) else escape(str(value))


def _short(cluster: str) -> str:
    return cluster if len(cluster) <= 10 else f"{cluster[:8]}…"


def _number(value: int) -> str:
    return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def _span(ms: int) -> str:
    for size, unit in ((3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if ms >= size:
            return f"{ms / size:.4g} {unit}"
    return f"{ms} ms"
