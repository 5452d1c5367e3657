"""Asking the emulator: one request, one answer."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any, Final

from isthmus_topology.reading import TopologyRefused

_SECONDS: Final = 10.0


def ask(control: Path, request: dict[str, Any]) -> list[dict[str, Any]]:
    """The state of every direction after the request; raises TopologyRefused."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_SECONDS)
            connection.connect(str(control))
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer: dict[str, Any] = json.loads(connection.makefile().readline())
    except (OSError, ValueError) as error:
        raise TopologyRefused(f"the emulator of the distance between regions does not answer: {error}") from error
    if "error" in answer:
        raise TopologyRefused(answer["error"])
    directions: list[dict[str, Any]] = answer["directions"]
    return directions
