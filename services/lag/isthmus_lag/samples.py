"""Records of the samples' topic as rows: the columns of LagSample, and the record's partition, offset and timestamp. Pure.

A record that is not a sample becomes a row with the reason in `_corrupt` and the record's position only. Records of a later version are
read as far as possible: a column that is missing or has another type is null.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from isthmus_model.lag_samples import VERSION
from pyspark.sql.types import (
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

CORRUPT: Final = "_corrupt"
LATE_MS: Final = 120_000
"""Upper bound on the time between a sample and its record: the producer gives up earlier."""
_INT: Final = ("int", IntegerType(), pa.int32())
_LONG: Final = ("long", LongType(), pa.int64())
_TEXT: Final = ("text", StringType(), pa.string())
_TYPES: Final = {
    "version": _INT,
    "kind": _TEXT,
    "link": _TEXT,
    "source_cluster": _TEXT,
    "target_cluster": _TEXT,
    "source_region": _TEXT,
    "target_region": _TEXT,
    "source_topic": _TEXT,
    "topic": _TEXT,
    "partition": _INT,
    "target_broker": _INT,
    "source_end": _LONG,
    "target_end": _LONG,
    "lag_records": _LONG,
    "lag_ms": _LONG,
    "at_ms": _LONG,
}
SAMPLE_COLUMNS: Final = tuple(_TYPES)
_BITS: Final = {"int": 31, "long": 63}

_PLACE: Final[tuple[tuple[str, DataType, pa.DataType], ...]] = (
    (CORRUPT, StringType(), pa.string()),
    ("kafka_partition", IntegerType(), pa.int32()),
    ("kafka_offset", LongType(), pa.int64()),
    ("kafka_timestamp", TimestampType(), pa.timestamp("us", tz="UTC")),
)
SCHEMA: Final = StructType(
    [StructField(name, spark) for name, (_, spark, _) in _TYPES.items()]
    + [StructField(name, spark) for name, spark, _ in _PLACE]
)
ARROW_SCHEMA: Final = pa.schema(
    [(name, arrow) for name, (_, _, arrow) in _TYPES.items()] + [(name, arrow) for name, _, arrow in _PLACE]
)
_EMPTY: Final = (None,) * len(_TYPES)


class RawRecord(NamedTuple):
    """A record of the topic, not parsed yet."""

    partition: int
    offset: int
    timestamp: int
    value: bytes | None


class NoSample(ValueError):
    """The record is not a sample; the message says why."""


def row_of(record: RawRecord) -> tuple[Any, ...]:
    """A row of `SCHEMA`; the record's timestamp is in microseconds, as Arrow expects."""
    place = (record.partition, record.offset, record.timestamp * 1000)
    try:
        return (*read_sample(record.value), None, *place)
    except NoSample as reason:
        return (*_EMPTY, str(reason), *place)


def to_arrow(records: Sequence[RawRecord]) -> pa.RecordBatch:
    """Convert records to one Arrow batch."""
    columns = zip(*map(row_of, records), strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def read_sample(value: bytes | None) -> tuple[Any, ...]:
    """Parse the sample's columns; raises NoSample."""
    if value is None:
        raise NoSample("the record has no value")
    try:
        fields = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise NoSample("the value is not JSON") from error
    if not isinstance(fields, dict):
        raise NoSample("the value is not a JSON object")
    version: Any = fields.get("version")
    if not _fits(version, "int") or version < 1:
        raise NoSample("the value has no version")
    fitting = {name: fields.get(name) for name, (kind, _, _) in _TYPES.items() if _fits(fields.get(name), kind)}
    if version <= VERSION:
        for name in SAMPLE_COLUMNS:
            if name not in fitting:
                raise NoSample(f"'{name}' is missing or has the wrong type")
    return tuple(fitting.get(name) for name in SAMPLE_COLUMNS)


def _fits(value: Any, kind: str) -> bool:
    if kind == "text":  # every text is a name; an unprintable one may be a lone surrogate, which Arrow refuses
        return isinstance(value, str) and value.isprintable()
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << _BITS[kind]) <= value < 1 << _BITS[kind]
