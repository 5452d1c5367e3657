"""Choose the configs that a mirror topic copies from its source: the always synced ones, and those in the link's settings."""

from collections.abc import Iterable, Mapping

from isthmus_wire.extensions.mirrors import ALWAYS_SYNCED_CONFIGS, CONFIGURABLE_CONFIGS


def config_changes(
    source: Mapping[str, str], destination: Mapping[str, str], included: Iterable[str]
) -> dict[str, str | None]:
    """The changes to make on the mirror topic; None restores the default."""
    followed = {*ALWAYS_SYNCED_CONFIGS, *(name for name in included if name in CONFIGURABLE_CONFIGS)}
    return {name: source.get(name) for name in sorted(followed) if source.get(name) != destination.get(name)}
