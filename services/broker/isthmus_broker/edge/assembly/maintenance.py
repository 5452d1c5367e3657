"""Periodic work of a broker: retention, compaction, flushes, checkpoints, ISR checks, expiry of producer ids."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.edge.replication.manager import ReplicaManager
from isthmus_broker.edge.storage.cleaner import Cleaner, CleanerLimits, Uncleanable
from isthmus_broker.edge.storage.log_manager import LogManager

FLUSH_CHECK_MS: Final = 1_000
"""The scheduler's own interval is unlimited by default; a topic's flush.ms is honoured with this precision."""


class Maintenance:
    """Jobs, each at its own interval."""

    def __init__(self, config: Callable[[], NodeConfig], logs: LogManager, replicas: ReplicaManager) -> None:
        self._config = config
        self._logs = logs
        self._replicas = replicas
        self._cleaner = Cleaner(logs, self._cleaner_limits)
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def start(self) -> None:
        """Schedule every job; each runs first after one interval."""
        settings = self._config().settings
        self._every("retention", lambda: self._config().settings.log_retention_check_interval_ms, self._logs.delete_expired,
                    first_ms=settings.log_initial_task_delay_ms)  # fmt: skip
        self._every("checkpoint", lambda: settings.log_flush_offset_checkpoint_interval_ms, self._logs.checkpoint)
        self._every(
            "starts",
            lambda: settings.log_flush_start_offset_checkpoint_interval_ms,
            self._logs.checkpoint_starts,
        )
        self._every(
            "flush", lambda: min(settings.log_flush_scheduler_interval_ms, FLUSH_CHECK_MS), self._logs.flush_due
        )
        if settings.log_cleaner_enable:
            self._every("cleaner", self._cleaner_backoff_ms, self._cleaner.start_round)
        self._every("isr", lambda: self._config().settings.replica_lag_time_max_ms // 2, self._replicas.check_isr)
        self._every("watermarks", self._watermark_interval_ms, self._logs.checkpoint_watermarks)
        self._every("producers", lambda: settings.producer_id_expiration_check_interval_ms, self._expire_producers)

    def stop(self) -> None:
        """Cancel all jobs."""
        for timer in self._timers.values():
            timer.cancel()
        self._cleaner.stop()

    def uncleanable(self) -> Mapping[Path, Uncleanable]:
        """The logs that cannot be cleaned, by directory."""
        return self._cleaner.uncleanable()

    def _cleaner_limits(self) -> CleanerLimits:
        settings = self._config().settings
        return CleanerLimits(settings.log_cleaner_dedupe_buffer_size, settings.log_cleaner_io_max_bytes_per_second)

    def _cleaner_backoff_ms(self) -> int:
        return max(self._config().settings.log_cleaner_backoff_ms, 1)

    def _watermark_interval_ms(self) -> int:
        interval = self._config().values["replica.high.watermark.checkpoint.interval.ms"]
        assert isinstance(interval, int)
        return interval

    def _expire_producers(self) -> None:
        self._logs.expire_producers(self._config().settings.producer_id_expiration_ms)

    def _every(
        self, name: str, interval_ms: Callable[[], int], job: Callable[[], None], first_ms: int | None = None
    ) -> None:
        """Run a job again and again; with an interval of 0 once, as Kafka's scheduler does."""
        loop = asyncio.get_running_loop()

        def run() -> None:
            interval = interval_ms()
            if interval:
                self._timers[name] = loop.call_later(interval / 1000, run)
            job()

        self._timers[name] = loop.call_later((interval_ms() if first_ms is None else first_ms) / 1000, run)
