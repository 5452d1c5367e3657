"""Choose the version of an API: the highest that both sides support. Pure."""

from collections.abc import Iterable
from typing import Final

from isthmus_wire.apis import ALL_VERSIONS, ApiKey

from isthmus_client.errors import NotSupported

# Brokers list Produce from version 0 for old librdkafka, but refuse the oldest versions.
_OLDEST: Final[dict[int, int]] = {ApiKey.PRODUCE: 3}

NEWEST: Final = 0x7FFF


class Versions:
    """The API versions of one broker."""

    def __init__(self, broker: str, ranges: Iterable[tuple[int, int, int]]) -> None:
        self.broker = broker
        self._ranges = {key: (low, high) for key, low, high in ranges}

    def choose(self, api: ApiKey, *, at_least: int = 0, at_most: int = NEWEST) -> int:
        """The version to use; raises NotSupported when the ranges do not meet between `at_least` and `at_most`."""
        ours_low, ours_high = ALL_VERSIONS[api]
        low, high = self._ranges.get(api, (0, -1))
        version = min(ours_high, high, at_most)
        floor = max(ours_low, low, at_least, _OLDEST.get(api, 0))
        if version < floor:
            offered = f"versions {low} to {high}" if high >= 0 else "not at all"
            raise NotSupported(
                f"broker {self.broker} offers {api.name} {offered}; version {floor} or newer is needed. Upgrade the broker."
            )
        return version

    def supports(self, api: ApiKey) -> bool:
        """Whether there is a common version."""
        try:
            self.choose(api)
        except NotSupported:
            return False
        return True

    def ranges(self) -> dict[int, tuple[int, int]]:
        """Lowest and highest version by API key, as the broker reported."""
        return dict(self._ranges)
