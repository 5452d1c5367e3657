"""The producer id under which a partition's copy is written: the same for every mirror that copies from the same topic of the same cluster.

So the target's own check of sequences stands between two mirrors that both believe a partition is theirs, and a batch tells where it came
from. The id is drawn from 2^56 by a digest, above all that Kafka gives out.
"""

import hashlib
from typing import Final
from uuid import UUID

_OURS: Final = 1 << 62
_BITS: Final = (1 << 56) - 1


def mirror_producer_id(cluster_id: str, topic: str, topic_id: UUID | None) -> int:
    """Of copies of this topic; clusters without topic ids have only its name."""
    known = f"{cluster_id}/{topic}" if topic_id is None else f"{cluster_id}/{topic_id}"
    return _OURS | (int.from_bytes(hashlib.sha256(known.encode()).digest()[:8], "big") & _BITS)
