"""The groups of the report: by link (or the replicas of a cluster), topic, pair of regions, kind of copy, and single copy."""

from enum import Enum
from typing import Final

KIND: Final = ("kind",)
LINK: Final = ("kind", "link", "source_cluster", "target_cluster")
REGIONS: Final = ("kind", "source_region", "target_region")
TOPIC: Final = (*LINK, "topic")
COPIED: Final = ("link", "source_cluster", "target_cluster", "topic", "partition")
"""A partition with all its copies. One process writes its samples: the worker of the link, or the partition's leader."""
COPY: Final = (*TOPIC, "partition", "target_broker")


class By(Enum):
    """The groups of the report, and their columns."""

    LINK = LINK
    TOPIC = TOPIC
    REGIONS = REGIONS
    KIND = KIND

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.value)
