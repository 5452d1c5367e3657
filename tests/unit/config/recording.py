"""Recorded responses of Apache Kafka about its configurations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parents[2] / "conformance" / "recordings" / "configs"


def recorded(part: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((_FOLDER / f"{part}.json").read_text())
    return document
