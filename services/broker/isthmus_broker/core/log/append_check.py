"""Validation of a client's batch, from its header alone.

The records inside are not read here: opening every batch would cost time on each produce. A batch must be able to hold the records that it
claims; one whose records still cannot be read harms only the consumer that fetches it. What Kafka's broker validates inside a batch
beyond this is listed in tests/conformance as a difference. Topics that require it have their batches opened (batch_opening.py).
"""

from typing import Final, NamedTuple

from isthmus_model.clocks import WallMs
from isthmus_wire.compression import Bytes, Compression
from isthmus_wire.errors import CorruptBatch, ErrorCode
from isthmus_wire.records import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    NO_PRODUCER,
    RECORD_SIZE_MIN,
    BatchHeader,
    checksum_matches,
    header_at,
    iterate_records,
)

from isthmus_broker.core.config.topic_config import TopicConfig
from isthmus_broker.core.log.producer_state import Refusal

_UNUSUAL: Final = CONTROL_BIT
_HEADER_AFTER_LENGTH: Final = HEADER_SIZE - LENGTH_END
ZSTD_SINCE: Final = 7
"""The first Produce version that may carry zstd."""


MAGIC_AT: Final = 16
_OLDEST_OVERHEAD: Final = 14
"""Bytes of the smallest record of magic 0: shorter ones are invalid."""

OPENED_FACTOR: Final = 32
"""The records of a batch that is opened may be this much larger than max.message.bytes."""
QUICK_SIZE: Final = 16 * 1024
"""Larger batches, and all compressed ones, take too long to be opened on the event loop."""
_OUT_OF_RANGE: Final = "Timestamp {} of message with offset {} is out of range. The timestamp should be within [{}, {}]"


class AppendRules(NamedTuple):
    """The topic's settings that apply to an append."""

    max_message_bytes: int
    segment_bytes: int
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    append_time: bool
    compression: int | None  # None keeps the producer's compression
    compression_level: int | None
    keys_required: bool
    batch_bytes_max: int  # the lesser of the first two
    may_open: bool  # a batch may have to be opened
    opened_bytes_max: int
    records_max: int  # in a compressed batch


def append_rules(config: TopicConfig) -> AppendRules:
    """The requirements on clients' batches from the topic's settings."""
    unchanged = config.compression_type in ("producer", "uncompressed")
    codec = None if unchanged else Compression[config.compression_type.upper()].value
    if config.compression_type == "uncompressed":
        codec = Compression.NONE.value
    return AppendRules(
        max_message_bytes=config.max_message_bytes,
        segment_bytes=config.segment_size,
        timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        append_time=config.message_timestamp_type == "LogAppendTime",
        compression=codec,
        compression_level=_level(config),
        keys_required=config.compacts,
        batch_bytes_max=min(config.max_message_bytes, config.segment_size),
        may_open=config.compacts or codec is not None,
        opened_bytes_max=OPENED_FACTOR * config.max_message_bytes,
        records_max=OPENED_FACTOR * config.max_message_bytes // RECORD_SIZE_MIN,
    )


def _level(config: TopicConfig) -> int | None:
    levels = {
        "gzip": config.compression_gzip_level,
        "lz4": config.compression_lz4_level,
        "zstd": config.compression_zstd_level,
    }
    return levels.get(config.compression_type)


def is_quick(header: BatchHeader) -> bool:
    """Whether the batch may be opened on the event loop."""
    return header.compression == Compression.NONE and header.size <= QUICK_SIZE


def check_framing(records: Bytes | None, version: int) -> BatchHeader | Refusal:
    """Return the one batch of magic 2 that Produce requires since version 3. An incomplete batch after it is ignored, as in Kafka."""
    if records is None:
        return Refusal(ErrorCode.invalid_record)
    sent = len(records)
    if sent >= HEADER_SIZE:
        header = header_at(records)
        if header.magic == MAGIC and header.length + LENGTH_END == sent and version >= ZSTD_SINCE:
            return header
    size = _next_batch(records, 0)
    if isinstance(size, Refusal):
        return size
    if size == 0 or records[MAGIC_AT] != MAGIC:
        return Refusal(ErrorCode.invalid_record)
    if size < HEADER_SIZE:
        return Refusal(ErrorCode.corrupt_message)
    header = header_at(records)
    if header.compression == Compression.ZSTD and version < ZSTD_SINCE:
        return Refusal(ErrorCode.unsupported_compression_type)
    following = _next_batch(records, size)
    if isinstance(following, Refusal):
        return following
    return Refusal(ErrorCode.invalid_record) if following else header


def _next_batch(records: Bytes, position: int) -> int | Refusal:
    """Size of the batch at `position`, 0 if it is incomplete."""
    left = len(records) - position
    if left < LENGTH_END:
        return 0
    length = int.from_bytes(records[position + 8 : position + LENGTH_END], signed=True)
    if length < _OLDEST_OVERHEAD:
        message = f"Record size {length} is less than the minimum record overhead ({_OLDEST_OVERHEAD})"
        return Refusal(ErrorCode.corrupt_message, message)
    if left <= MAGIC_AT:
        return 0
    magic = int.from_bytes(records[position + MAGIC_AT : position + MAGIC_AT + 1], signed=True)
    if not 0 <= magic <= MAGIC:
        return Refusal(ErrorCode.corrupt_message, f"Invalid magic found in record: {magic}")
    return length + LENGTH_END if length + LENGTH_END <= left else 0


def check_batch(records: Bytes, header: BatchHeader, rules: AppendRules, now_ms: WallMs) -> Refusal | None:
    """Check size, checksum, counts, producer fields and timestamps of a client's batch.

    An ordinary batch passes one condition; only one that does not is checked rule by rule, in Kafka's order.
    """
    base_offset, length, _, _, _, attributes, last_delta, base_time, max_time, producer_id, _, sequence, count = header
    if (
        base_offset == 0
        and length + LENGTH_END <= rules.batch_bytes_max
        and last_delta == count - 1 >= 0
        and attributes & _UNUSUAL == 0
        and attributes & COMPRESSION_MASK <= Compression.ZSTD
        and count
        <= (
            (length - _HEADER_AFTER_LENGTH) // RECORD_SIZE_MIN
            if not attributes & COMPRESSION_MASK
            else rules.records_max
        )
        and now_ms - base_time <= rules.timestamp_before_max_ms
        and max_time - now_ms <= rules.timestamp_after_max_ms
        and (producer_id == NO_PRODUCER or sequence >= 0)
        and checksum_matches(records, header)
    ):
        return None
    return _batch_refusal(records, header, rules, now_ms)


def _batch_refusal(records: Bytes, header: BatchHeader, rules: AppendRules, now_ms: WallMs) -> Refusal | None:
    if header.base_offset != 0:
        return Refusal(ErrorCode.invalid_record, with_log_start=True)
    if header.size > rules.max_message_bytes:
        return Refusal(ErrorCode.message_too_large)
    if not checksum_matches(records, header):
        return Refusal(ErrorCode.corrupt_message)
    if header.size > rules.segment_bytes:
        return Refusal(ErrorCode.record_list_too_large)
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1 or header.is_control:
        return Refusal(ErrorCode.invalid_record, with_log_start=True)
    if header.producer_id != NO_PRODUCER and header.base_sequence < 0:
        return Refusal(ErrorCode.invalid_record, with_log_start=True)
    if header.compression > Compression.ZSTD:
        return Refusal(ErrorCode.unknown_server_error, with_log_start=True)
    uncompressed = header.size - HEADER_SIZE if header.compression == Compression.NONE else rules.opened_bytes_max
    if header.record_count > uncompressed // RECORD_SIZE_MIN:
        return Refusal(ErrorCode.invalid_record, with_log_start=True)
    return _check_timestamps(records, header, rules, now_ms)


def _check_timestamps(records: Bytes, header: BatchHeader, rules: AppendRules, now_ms: WallMs) -> Refusal | None:
    """Find the records with timestamps out of range. Of a batch that is not quick to open, the refusal names none."""
    if rules.append_time or header.uses_append_time or header.max_timestamp < 0:
        return None
    earliest, latest = now_ms - rules.timestamp_before_max_ms, now_ms + rules.timestamp_after_max_ms
    if header.base_timestamp >= earliest and header.max_timestamp <= latest:
        return None
    try:
        wrong = tuple(
            (
                record.offset,
                _OUT_OF_RANGE.format(record.timestamp, record.offset, earliest, latest),
            )
            for record in (iterate_records(records) if is_quick(header) else ())
            if not earliest <= record.timestamp <= latest
        )
    except CorruptBatch:
        wrong = ()
    message = "One or more records have been rejected due to invalid timestamp"
    return Refusal(ErrorCode.invalid_timestamp, message, wrong, with_log_start=True)
