"""Apache Kafka's responses as data: one JSON file per group, one line per step, so that a change reads well as a diff."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.conformance.oracle.exchanges import Group
from tests.conformance.oracle.talk import Step, Talk, Target, Unanswered

FOLDER: Final = Path(__file__).parent.parent / "recordings" / "oracle"
CHOICES_FILE: Final = FOLDER.parent / "choices.json"

SILENCE: Final = "silence"
"""The step of a request that got no response."""

Recording = dict[str, list[Step]]


def converse(group: Group, target: Target) -> Recording:
    """Run a group's exchanges with one broker."""
    recording: Recording = {}
    for name, script in group.scripts.items():
        talk = Talk(target)
        try:
            script(talk)
        except Unanswered as silence:
            talk.steps.append(Step(SILENCE, str(silence)))
        finally:
            talk.close()
        recording[name] = talk.steps
    return recording


def save(name: str, recording: Mapping[str, Sequence[Step]]) -> None:
    """Write a group's file."""
    parts = []
    for exchange, steps in recording.items():
        lines = ",\n".join("  " + json.dumps(step, ensure_ascii=False) for step in steps)
        parts.append(f" {json.dumps(exchange)}: [\n{lines}\n ]")
    FOLDER.mkdir(parents=True, exist_ok=True)
    _file(name).write_text("{\n" + ",\n".join(parts) + "\n}\n")


def load(name: str) -> Recording:
    """Read a group's file."""
    data: dict[str, list[list[Any]]] = json.loads(_file(name).read_text())
    return {exchange: [Step(*step) for step in steps] for exchange, steps in data.items()}


def save_choices(ours: Mapping[str, Any]) -> None:
    """Write our answers where they differ by choice."""
    CHOICES_FILE.write_text(json.dumps(dict(sorted(ours.items())), indent=1, ensure_ascii=False) + "\n")


def load_choices() -> dict[str, Any]:
    """Our answers, by place, where they differ by choice."""
    ours: dict[str, Any] = json.loads(CHOICES_FILE.read_text())
    return ours


def _file(name: str) -> Path:
    return FOLDER / f"{name}.json"
