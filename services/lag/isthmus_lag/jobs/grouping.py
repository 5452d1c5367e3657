"""What numbers are told for: a link or the replicas of a cluster, a topic of those, a pair of regions, a kind of copy; a single copy."""

from enum import Enum
from typing import Final

KIND: Final = ("kind",)
LINK: Final = ("kind", "link", "source_cluster", "target_cluster")
REGIONS: Final = ("kind", "source_region", "target_region")
TOPIC: Final = (*LINK, "topic")
COPIED: Final = ("link", "source_cluster", "target_cluster", "topic", "partition")
"""What is copied, by whichever copy: a partition. Its samples come from one teller: the worker of the link, or the partition's leader."""
COPY: Final = (*TOPIC, "partition", "target_broker")


class By(Enum):
    """The groups of the report, and their columns."""

    LINK = LINK
    TOPIC = TOPIC
    REGIONS = REGIONS
    KIND = KIND

    @property
    def columns(self) -> list[str]:
        """Their names."""
        return list(self.value)
