"""The results as JSON and as a table, with the machine and the conditions they came from."""

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from bench.brokers import ISTHMUS, KAFKA, ROOT, SYSTEMS
from bench.scenarios import Figure
from tests.kafka import VERSION

RESULTS: Final = ROOT / "bench" / "results"


@dataclass(slots=True)
class Row:
    """One figure of one scenario, with each round's value of each system."""

    scenario: str
    name: str
    figure: Figure
    values: dict[str, list[float]] = field(default_factory=lambda: {system: [] for system in SYSTEMS})

    def median(self, system: str) -> float:
        """Of all rounds."""
        return statistics.median(self.values[system])

    def ratio(self) -> float | None:
        """Isthmus over Apache Kafka; none where Kafka's tool rounds to zero."""
        kafka = self.median(KAFKA)
        return self.median(ISTHMUS) / kafka if kafka else None

    def verdict(self) -> str:
        """Whether the target is met."""
        ratio, target = self.ratio(), self.figure.target
        if target is None or ratio is None:
            return ""
        return "yes" if (ratio >= target if self.figure.more_is_better else ratio <= target) else "**no**"


class Rows:
    """All figures, in the order in which they came first."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], Row] = {}

    def add(self, scenario: str, figures: Mapping[str, Figure], system: str, values: Mapping[str, float]) -> None:
        """What one measurement found."""
        for name, figure in figures.items():
            row = self._rows.setdefault((scenario, name), Row(scenario, name, figure))
            row.values[system].append(values[name])

    def complete(self) -> list[Row]:
        """Those that both systems have."""
        return [row for row in self._rows.values() if all(row.values[system] for system in SYSTEMS)]


def conditions(rounds: int) -> dict[str, Any]:
    """Machine, versions, load."""
    cpuinfo = Path("/proc/cpuinfo").read_text().splitlines()
    models = sorted({line.partition(": ")[2] for line in cpuinfo if line.startswith("model name")})
    memory_kb = int(Path("/proc/meminfo").read_text().split()[1])
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[0]
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=True
    )
    return {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "rounds": rounds,
        "cpu": ", ".join(models),
        "cores": os.cpu_count(),
        "memory GB": round(memory_kb / 1e6, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": java,
        "Apache Kafka": f"{VERSION}, -Xmx1G -Xms1G",
        "Isthmus": commit.stdout.strip(),
        "confluent-kafka": metadata.version("confluent-kafka"),
        "load average before": round(os.getloadavg()[0], 2),
        "clients": "on the same cores as the brokers",
    }


@dataclass(frozen=True, slots=True)
class Heading:
    """What stands above a table, and above the column of who is compared with."""

    title: str = "Isthmus beside Apache Kafka"
    how: str = "both brokers on one machine in the same run, the order changing every round"
    peer: str = KAFKA
    more: str = " [Where the CPU goes](profile.md)."


_BROKERS: Final = Heading()


def save(stem: str, data: Mapping[str, Any], lines: Iterable[str]) -> Path:
    """Write a result as JSON and as a page; returns the page's path."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{stem}.json").write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    page = RESULTS / f"{stem}.md"
    page.write_text("\n".join(lines) + "\n")
    return page


def write(rows: list[Row], facts: Mapping[str, Any], stem: str, heading: Heading = _BROKERS) -> Path:
    """Both files; returns the table's path."""
    figures = [
        {
            "scenario": row.scenario,
            "figure": row.name,
            "unit": row.figure.unit,
            "rounds": row.values,
            "medians": {system: row.median(system) for system in SYSTEMS},
            "ratio": row.ratio(),
            "target": row.figure.target,
        }
        for row in rows
    ]
    return save(stem, {"conditions": facts, "figures": figures}, _markdown(rows, facts, heading))


def _markdown(rows: list[Row], facts: Mapping[str, Any], heading: Heading) -> list[str]:
    lines = [
        f"# {heading.title}",
        "",
        f"Medians of {facts['rounds']} rounds, {heading.how}.",
        f"Every round's value is in the JSON file beside this one.{heading.more}",
        "",
        *(f"- {name}: {value}" for name, value in facts.items() if name != "rounds"),
        "",
        f"| scenario | figure | Isthmus | {heading.peer} | unit | ratio | target | met |",
        "|---|---|--:|--:|---|--:|--:|---|",
    ]
    for row in rows:
        ratio, target = row.ratio(), row.figure.target
        bound = "" if target is None else f"{'≥' if row.figure.more_is_better else '≤'} {target}"
        lines.append(
            f"| {row.scenario} | {row.name} | {_number(row.median(ISTHMUS))} | {_number(row.median(KAFKA))} "
            f"| {row.figure.unit} | {'' if ratio is None else f'{ratio:.2f}'} | {bound} | {row.verdict()} |"
        )
    return lines


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
