"""Which configs of a source's topic its mirror takes over: what both share always, and what the link's settings name."""

from collections.abc import Iterable, Mapping

from isthmus_wire.extensions.mirrors import ALWAYS_SYNCED_CONFIGS, CONFIGURABLE_CONFIGS


def config_changes(
    source: Mapping[str, str], destination: Mapping[str, str], included: Iterable[str]
) -> dict[str, str | None]:
    """From what is set on both topics to what to set on the mirror; None brings back the default."""
    followed = {*ALWAYS_SYNCED_CONFIGS, *(name for name in included if name in CONFIGURABLE_CONFIGS)}
    return {name: source.get(name) for name in sorted(followed) if source.get(name) != destination.get(name)}
