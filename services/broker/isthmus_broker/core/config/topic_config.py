"""The effective settings of a topic's log: the topic's own over those of its broker, typed and validated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from isthmus_broker.core.config.definitions import TOPIC_CONFIGS
from isthmus_broker.core.config.values import ConfigRefused, Value

SAME_AS_RETENTION: Final = -2
"""As the value of local.retention.*: that of retention.*."""
HOUR_MS: Final = 3_600_000
MINUTE_MS: Final = 60_000


# The broker settings that are a topic's defaults, in order of precedence; the factor converts their unit.
TOPIC_SYNONYMS: Final[Mapping[str, tuple[tuple[str, int], ...]]] = {
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "isthmus.leader.preference": (("isthmus.leader.preference", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "preallocate": (("log.preallocate", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", MINUTE_MS),
        ("log.retention.hours", HOUR_MS),
    ),
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", HOUR_MS)),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """Every topic setting by the name of its key, with underscores for dots."""

    cleanup_policy: tuple[str, ...]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    internal_segment_bytes: int | None
    leader_replication_throttled_replicas: tuple[str, ...]
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool
    is_mirrored: bool = False
    """Not a setting: whether the topic is, or was, a mirror topic."""

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def leaves_gaps(self) -> bool:
        """Whether its logs may have offset gaps: a mirror topic has the gaps of its source."""
        return self.compacts or self.is_mirrored

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def segment_size(self) -> int:
        """The size at which a segment is rolled; the internal setting, if given, has no lower bound."""
        return self.segment_bytes if self.internal_segment_bytes is None else self.internal_segment_bytes

    @property
    def max_segment_ms(self) -> int:
        """The age at which a segment is rolled: in a compacted topic, records must become available to the cleaner in time."""
        if self.compacts and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms


def topic_defaults(broker: Mapping[str, Value]) -> dict[str, Value]:
    """The topic settings that follow from a broker's (typed) settings."""
    defaults = {name: definition.default_value for name, definition in TOPIC_CONFIGS.items()}
    for name, synonyms in TOPIC_SYNONYMS.items():
        given = next(((broker[key], factor) for key, factor in synonyms if broker[key] is not None), None)
        assert given is not None, "the last synonym always has a default"
        value, factor = given
        defaults[name] = value * factor if isinstance(value, int) and factor != 1 else value
    if isinstance(defaults["retention.ms"], int) and defaults["retention.ms"] < 0:
        defaults["retention.ms"] = -1
    return defaults


def topic_values(overrides: Mapping[str, str], defaults: Mapping[str, Value]) -> dict[str, Value]:
    """Every topic setting, typed; ConfigRefused if an override is unknown or invalid."""
    for name in overrides:
        if name not in TOPIC_CONFIGS:
            raise ConfigRefused(f"Unknown topic config name: {name}")
    return {
        name: definition.parse(overrides[name]) if name in overrides else defaults[name]
        for name, definition in TOPIC_CONFIGS.items()
    }


def resolve_topic(overrides: Mapping[str, str], defaults: Mapping[str, Value]) -> TopicConfig:
    """The settings of a topic's log. The overrides were validated when they were set."""
    return as_topic_config(topic_values(overrides, defaults))


def as_topic_config(values: Mapping[str, Any]) -> TopicConfig:
    settings = (field.name for field in fields(TopicConfig) if field.name != "is_mirrored")
    return TopicConfig(**{name: values[name.replace("_", ".")] for name in settings})


def check_topic(
    overrides: Mapping[str, str], existing: Mapping[str, str], defaults: Mapping[str, Value], *, has_tier: bool
) -> None:
    """Raise ConfigRefused for invalid settings of a topic; `existing` are its current ones. `has_tier` is the cluster's setting."""
    config = resolve_topic(overrides, defaults)
    check_compaction_lags(config.min_compaction_lag_ms, config.max_compaction_lag_ms)
    if config.remote_storage_enable:
        check_tiered(config, has_tier=has_tier)
    elif existing.get("remote.storage.enable", "").lower() == "true" and not config.remote_log_delete_on_disable:
        raise ConfigRefused(
            "It is invalid to disable remote storage without deleting remote data. "
            "If you want to keep the remote data and turn to read only, please set "
            "`remote.storage.enable=true,remote.log.copy.disable=true`. "
            "If you want to disable remote storage and delete all remote data, please set "
            "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
        )


def check_tiered(config: TopicConfig, *, has_tier: bool) -> None:
    """Raise ConfigRefused for settings that a tiered topic must not have, in Kafka's order and with its messages."""
    if not has_tier:
        raise ConfigRefused(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    if config.cleanup_policy not in ((), ("delete",)):
        raise ConfigRefused(
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."
        )
    _check_local("bytes", config.local_retention_bytes, config.retention_bytes)
    _check_local("ms", config.local_retention_ms, config.retention_ms)
    if config.remote_log_copy_disable:
        for unit, local, whole in (
            ("bytes", config.local_retention_bytes, config.retention_bytes),
            ("ms", config.local_retention_ms, config.retention_ms),
        ):
            if local not in (SAME_AS_RETENTION, whole):
                raise ConfigRefused(
                    f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and `retention.{unit}` "
                    "must be set to the identical value because there will be no more logs copied to the remote storage."
                )


def _check_local(unit: str, local: int, whole: int) -> None:
    if whole < 0 or local == SAME_AS_RETENTION:
        return
    invalid = f"Invalid value {local} for configuration local.retention.{unit}: "
    if local < 0:
        raise ConfigRefused(f"{invalid}Value must not be -1 as retention.{unit} value is set as {whole}.")
    if local > whole:
        raise ConfigRefused(f"{invalid}Value must not be more than retention.{unit} property value: {whole}")


def check_compaction_lags(min_lag_ms: int, max_lag_ms: int) -> None:
    if min_lag_ms > max_lag_ms:
        raise ConfigRefused(
            f"conflict topic config setting min.compaction.lag.ms ({min_lag_ms}) > max.compaction.lag.ms ({max_lag_ms})"
        )
