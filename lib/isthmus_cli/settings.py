"""A node's settings: the file, overridden by the environment, overridden by the command line."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from isthmus_broker.core.config.environment import from_environment
from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.node_config import with_embedded_defaults
from isthmus_broker.core.config.values import ConfigRefused
from isthmus_model.properties import parse_properties

EMBEDDED_DATA: Final = "data"
"""Data directory of a node without log.dirs, below the current directory."""


def node_layers(config: Path | None, settings: Sequence[str]) -> BrokerLayers:
    """The static settings; raises ConfigRefused."""
    given: dict[str, str] = {}
    if config is not None:
        try:
            given.update({key: entry.value for key, entry in parse_properties(config.read_text()).items()})
        except OSError as error:
            raise ConfigRefused(f"cannot read {config}: {error.strerror}") from error
        except ValueError as error:
            raise ConfigRefused(f"{config}: {error}") from error
    given.update(from_environment(os.environ))
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise ConfigRefused(f"--set: expected KEY=VALUE, got '{setting}'")
        given[key.strip()] = value.strip()
    return BrokerLayers(with_embedded_defaults(given, os.path.abspath(EMBEDDED_DATA)))
