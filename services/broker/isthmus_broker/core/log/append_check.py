"""What a leader demands of a batch before it takes it, from its header alone.

The records inside are never read here: a broker that opened every batch would pay for it on each produce, and a record that does
not parse harms only the consumer that asked for it. What Kafka's broker checks inside a batch beyond this is listed in
tests/conformance as a difference.
"""

from typing import Final, NamedTuple

from isthmus_wire.compression import Bytes, Compression
from isthmus_wire.errors import ErrorCode
from isthmus_wire.records import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    NO_PRODUCER,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    checksum_matches,
    header_at,
)

from isthmus_broker.core.log.producer_state import Refusal

_UNUSUAL: Final = CONTROL_BIT | TIMESTAMP_TYPE_BIT
ZSTD_SINCE: Final = 7
"""The first Produce version that may carry zstd."""


class AppendRules(NamedTuple):
    """The topic's settings that an append obeys."""

    max_message_bytes: int
    segment_bytes: int
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    append_time: bool
    compression: int | None  # None keeps what the producer chose
    keys_required: bool
    batch_bytes_max: int  # the lesser of the first two


def check_framing(records: Bytes | None, version: int) -> BatchHeader | Refusal:
    """Exactly one whole batch of magic 2, as Produce has demanded since version 3."""
    if records is None or len(records) == 0:
        return Refusal(
            ErrorCode.invalid_record, f"Produce requests with version {version} must have at least one record batch"
        )
    if len(records) < HEADER_SIZE:
        return Refusal(ErrorCode.corrupt_message, f"{len(records)} bytes are shorter than the header of a record batch")
    header = header_at(records)
    size = header.length + LENGTH_END
    if header.magic == MAGIC and size == len(records) >= HEADER_SIZE and version >= ZSTD_SINCE:
        return header
    return _framing_refusal(header, size, len(records), version) or header


def _framing_refusal(header: BatchHeader, size: int, sent: int, version: int) -> Refusal | None:
    if header.magic != MAGIC:
        return Refusal(
            ErrorCode.invalid_record,
            f"Produce requests with version {version} may only hold record batches of magic {MAGIC}, not {header.magic}",
        )
    if size < HEADER_SIZE or size > sent:
        return Refusal(ErrorCode.corrupt_message, f"The record batch claims {size} bytes, but {sent} were sent")
    if header.compression == Compression.ZSTD and version < ZSTD_SINCE:
        return Refusal(
            ErrorCode.unsupported_compression_type,
            f"Produce requests with version {version} may not use ZSTD, which needs version {ZSTD_SINCE}",
        )
    if size < sent:
        return Refusal(
            ErrorCode.invalid_record, f"Produce requests with version {version} must hold exactly one record batch"
        )
    return None


def check_batch(records: Bytes, header: BatchHeader, rules: AppendRules, now_ms: int) -> Refusal | None:
    """Size, checksum, counts, producer fields and timestamps of a client's batch.

    An ordinary batch passes one condition; only one that does not is looked at rule by rule, in Kafka's order.
    """
    base_offset, length, _, _, _, attributes, last_delta, base_time, max_time, producer_id, epoch, sequence, count = (
        header
    )
    if (
        base_offset == 0
        and length + LENGTH_END <= rules.batch_bytes_max
        and last_delta == count - 1 >= 0
        and attributes & _UNUSUAL == 0
        and attributes & COMPRESSION_MASK <= Compression.ZSTD
        and now_ms - base_time <= rules.timestamp_before_max_ms
        and max_time - now_ms <= rules.timestamp_after_max_ms
        and (producer_id == NO_PRODUCER or (sequence >= 0 and epoch >= 0))
        and checksum_matches(records, header)
    ):
        return None
    return _batch_refusal(records, header, rules, now_ms)


def _batch_refusal(records: Bytes, header: BatchHeader, rules: AppendRules, now_ms: int) -> Refusal | None:
    if header.base_offset != 0:
        return Refusal(
            ErrorCode.invalid_record, f"The base offset of a produced batch must be 0, not {header.base_offset}"
        )
    if header.size > rules.max_message_bytes:
        return Refusal(
            ErrorCode.message_too_large,
            f"The record batch of {header.size} bytes exceeds the topic's max.message.bytes {rules.max_message_bytes}",
        )
    if not checksum_matches(records, header):
        return Refusal(ErrorCode.corrupt_message, "The record batch does not have the checksum it claims")
    if header.size > rules.segment_bytes:
        return Refusal(
            ErrorCode.record_list_too_large,
            f"The record batch of {header.size} bytes exceeds the topic's segment.bytes {rules.segment_bytes}",
        )
    return _check_counts(header) or _check_timestamps(header, rules, now_ms)


def _check_counts(header: BatchHeader) -> Refusal | None:
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        return Refusal(
            ErrorCode.invalid_record,
            f"The record batch claims {header.record_count} records and a last offset delta of {header.last_offset_delta}",
        )
    if header.is_control:
        return Refusal(ErrorCode.invalid_record, "Clients may not write control batches")
    if header.producer_id != NO_PRODUCER and (header.base_sequence < 0 or header.producer_epoch < 0):
        return Refusal(
            ErrorCode.invalid_record,
            f"Producer {header.producer_id} sent epoch {header.producer_epoch} and sequence {header.base_sequence}",
        )
    if header.compression > Compression.ZSTD:
        return Refusal(ErrorCode.corrupt_message, f"Compression type {header.compression} does not exist")
    return None


def _check_timestamps(header: BatchHeader, rules: AppendRules, now_ms: int) -> Refusal | None:
    if rules.append_time:
        return None
    if header.uses_append_time:
        return Refusal(ErrorCode.invalid_timestamp, "Producers may not set the timestamp type to log append time")
    if header.max_timestamp < 0:  # the client set no timestamps
        return None
    if now_ms - header.base_timestamp > rules.timestamp_before_max_ms:
        return Refusal(
            ErrorCode.invalid_timestamp,
            f"Timestamp {header.base_timestamp} is more than {rules.timestamp_before_max_ms} ms before the broker's clock",
        )
    if header.max_timestamp - now_ms > rules.timestamp_after_max_ms:
        return Refusal(
            ErrorCode.invalid_timestamp,
            f"Timestamp {header.max_timestamp} is more than {rules.timestamp_after_max_ms} ms after the broker's clock",
        )
    return None
