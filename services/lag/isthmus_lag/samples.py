"""What a record of the samples' topic says, as a row: the columns of LagSample, read from any version, and where the record was. Pure.

A record that is no sample is a row as well: it has a reason in `_corrupt`, its place, and nothing else. A record of a later version is
read as far as it is known: a column that it lacks, or has with another type, is empty.
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
"""A sample is written at most so long after its moment: a producer gives it up before."""
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
    """A record of the topic, before anything is read from it."""

    partition: int
    offset: int
    timestamp: int
    value: bytes | None


class NoSample(ValueError):
    """Why a record is not one."""


def row_of(record: RawRecord) -> tuple[Any, ...]:
    """A row of `SCHEMA`; the time of the record in microseconds, as Arrow wants it."""
    place = (record.partition, record.offset, record.timestamp * 1000)
    try:
        return (*read_sample(record.value), None, *place)
    except NoSample as reason:
        return (*_EMPTY, str(reason), *place)


def to_arrow(records: Sequence[RawRecord]) -> pa.RecordBatch:
    """Rows as one Arrow batch."""
    columns = zip(*map(row_of, records), strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def read_sample(value: bytes | None) -> tuple[Any, ...]:
    """The sample's columns; raises NoSample."""
    if value is None:
        raise NoSample("the record has no value")
    try:
        told = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise NoSample("the value is not JSON") from error
    if not isinstance(told, dict):
        raise NoSample("the value is not a JSON object")
    version: Any = told.get("version")
    if not _fits(version, "int") or version < 1:
        raise NoSample("the value has no version")
    fitting = {name: told.get(name) for name, (kind, _, _) in _TYPES.items() if _fits(told.get(name), kind)}
    if version <= VERSION:
        for name in SAMPLE_COLUMNS:
            if name not in fitting:
                raise NoSample(f"'{name}' is missing, or of another type")
    return tuple(fitting.get(name) for name in SAMPLE_COLUMNS)


def _fits(value: Any, kind: str) -> bool:
    if kind == "text":  # names, all of them; what cannot be printed may be half a character, which Arrow refuses
        return isinstance(value, str) and value.isprintable()
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << _BITS[kind]) <= value < 1 << _BITS[kind]
