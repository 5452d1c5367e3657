"""Choose the configs that a copy gets from its source topic."""

import re
from collections.abc import Mapping
from typing import Final

KEPT: Final = {"compression.type": "producer", "message.timestamp.type": "CreateTime"}
"""Configs of every copy: the target must not change the compression and timestamps of its batches."""


def creation_configs(source: Mapping[str, str], exclude: re.Pattern[str]) -> dict[str, str]:
    """The configs of a new copy, from those set on the source topic."""
    return {name: value for name, value in sorted(source.items()) if _follows(name, exclude)} | KEPT


def config_changes(
    source: Mapping[str, str], target: Mapping[str, str], exclude: re.Pattern[str]
) -> dict[str, str | None]:
    """The changes to make on the copy; None restores the default."""
    intended = creation_configs(source, exclude)
    names = {name for name in (*source, *target) if _follows(name, exclude)} | KEPT.keys()
    return {name: intended.get(name) for name in sorted(names) if intended.get(name) != target.get(name)}


def _follows(name: str, exclude: re.Pattern[str]) -> bool:
    """Whether a config is copied; vendor-specific ones cannot be set on other brokers."""
    return name not in KEPT and not name.startswith(("isthmus.", "confluent.")) and exclude.fullmatch(name) is None
