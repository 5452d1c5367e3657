"""The producer id of a partition's copy: the same for every mirror that copies the same topic of the same cluster.

So the target's sequence check protects against two mirrors that copy the same partition, and the id identifies a batch's origin. The id is
a digest of 56 bits, above all ids that Kafka allocates.
"""

import hashlib
from typing import Final
from uuid import UUID

_OURS: Final = 1 << 62
_BITS: Final = (1 << 56) - 1


def mirror_producer_id(cluster_id: str, topic: str, topic_id: UUID | None) -> int:
    """The producer id for copies of this topic; by name in clusters without topic ids."""
    identity = f"{cluster_id}/{topic}" if topic_id is None else f"{cluster_id}/{topic_id}"
    return _OURS | (int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8], "big") & _BITS)
