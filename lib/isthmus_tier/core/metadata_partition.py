"""The partition of `__remote_log_metadata` that describes the segments of a partition, as Kafka computes it."""

from typing import Final

from isthmus_model.murmur2 import murmur2

from isthmus_tier.core.segments import Place

_INT: Final = 0xFFFFFFFF
_POSITIVE_INT: Final = 0x7FFFFFFF
_FACTOR: Final = 31


def metadata_partition(place: Place, count: int) -> int:
    """The partition of the metadata topic, which has `count` of them: by Java's hash of the topic's id and the partition."""
    high, low = divmod(place.topic_id.int, 1 << 64)
    code = _FACTOR
    for half in (low, high):
        code = _FACTOR * (code + (half & _INT ^ half >> 32)) & _INT
    code = code + place.partition & _INT
    return (murmur2(code.to_bytes(4, "big")) & _POSITIVE_INT) % count
