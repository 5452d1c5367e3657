"""Requests to the emulator."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any, Final

from isthmus_topology.reading import TopologyRefused

_SECONDS: Final = 10.0


def send_request(control: Path, request: dict[str, Any]) -> list[dict[str, Any]]:
    """Send a request; returns the state of every direction after it, raises TopologyRefused."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_SECONDS)
            connection.connect(str(control))
            connection.sendall(json.dumps(request).encode() + b"\n")
            response: dict[str, Any] = json.loads(connection.makefile().readline())
    except (OSError, ValueError) as error:
        raise TopologyRefused(f"the emulator of the network between regions does not respond: {error}") from error
    if "error" in response:
        raise TopologyRefused(response["error"])
    directions: list[dict[str, Any]] = response["directions"]
    return directions
