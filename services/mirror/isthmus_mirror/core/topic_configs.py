"""Which configs of a source's topic its copy takes over."""

import re
from collections.abc import Mapping
from typing import Final

KEPT: Final = {"compression.type": "producer", "message.timestamp.type": "CreateTime"}
"""What every copy has: its batches are its source's, with their compression and their times, and the target must leave them so."""


def creation_configs(source: Mapping[str, str], exclude: re.Pattern[str]) -> dict[str, str]:
    """What a new copy is made with, from what is set on the source's topic."""
    return {name: value for name, value in sorted(source.items()) if _follows(name, exclude)} | KEPT


def config_changes(
    source: Mapping[str, str], target: Mapping[str, str], exclude: re.Pattern[str]
) -> dict[str, str | None]:
    """From what is set on both topics to what to set on the copy; None brings back the default."""
    wanted = creation_configs(source, exclude)
    names = {name for name in (*source, *target) if _follows(name, exclude)} | KEPT.keys()
    return {name: wanted.get(name) for name in sorted(names) if wanted.get(name) != target.get(name)}


def _follows(name: str, exclude: re.Pattern[str]) -> bool:
    """What only one make of broker knows cannot be set on the other."""
    return name not in KEPT and not name.startswith(("isthmus.", "confluent.")) and exclude.fullmatch(name) is None
