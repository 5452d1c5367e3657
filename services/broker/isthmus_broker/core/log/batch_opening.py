"""Opening a client's batch where its topic demands it: a compacted topic wants keys, a topic may have a compression of its own.

Opening costs time and memory in proportion to the records, not to the bytes on the wire. It is bounded: records of more than
`OPENED_FACTOR` times max.message.bytes are refused. Only a batch that `append_check.is_quick` is opened on the event loop; any other is
opened in a thread first (edge/replication/batch_opener.py), and its append takes the result.
"""

from typing import Final, NamedTuple

from isthmus_wire.compression import Bytes, TooLarge
from isthmus_wire.errors import CorruptBatch, ErrorCode, UnknownCompression
from isthmus_wire.records import BatchHeader, body_of, framed_records, keyless_records, recompressed

from isthmus_broker.core.log.append_check import AppendRules
from isthmus_broker.core.log.producer_state import Refusal

_ERRORS_SHOWN: Final = 3


class Opened(NamedTuple):
    """The result: a refusal, or the batch as it will be stored if that is not as it was sent."""

    refusal: Refusal | None = None
    batch: bytearray | None = None


ACCEPTED: Final = Opened()


def must_open(header: BatchHeader, rules: AppendRules) -> bool:
    """Whether the topic's settings depend on the records."""
    return rules.keys_required or rules.compression not in (None, header.compression)


def open_batch(batch: Bytes, header: BatchHeader, rules: AppendRules, topic: str, index: int) -> Opened:
    """Check the keys, and compress again."""
    try:
        body = body_of(batch, header, limit=rules.opened_bytes_max)
        refusal = _check_keys(body, header, topic, index) if rules.keys_required else None
        if refusal is not None:
            return Opened(refusal)
        if rules.compression in (None, header.compression):
            return ACCEPTED
        for _ in framed_records(body, header.record_count):
            pass
        return Opened(batch=recompressed(batch, header, body, rules.compression, rules.compression_level))
    except TooLarge as error:
        return Opened(Refusal(ErrorCode.message_too_large, f"The topic requires batches to be opened: {error}."))
    except UnknownCompression:
        return Opened(Refusal(ErrorCode.unknown_server_error, with_log_start=True))
    except CorruptBatch:
        return Opened(Refusal(ErrorCode.invalid_record, with_log_start=True))


def _check_keys(body: memoryview, header: BatchHeader, topic: str, index: int) -> Refusal | None:
    missing = keyless_records(body, header)
    if not missing:
        return None
    why = f"Compacted topic cannot accept message without key in topic partition {topic}-{index}"
    shown = ", ".join(f"RecordError(batchIndex={number}, message='{why}')" for number in missing[:_ERRORS_SHOWN])
    message = (
        f"One or more records have been rejected due to {len(missing)} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )
    return Refusal(ErrorCode.invalid_record, message, tuple((n, why) for n in missing), with_log_start=True)
