"""Settings that Kafka accepts and that have no effect here, with the reason. A node that starts names those it was given.

`tests/unit/config/test_effects.py` checks that every other setting is read somewhere.
"""

from collections.abc import Iterable, Mapping
from typing import Final

_SECURITY = "this release does not support TLS, SASL or authorisation"
_TIERED = "this release copies segments to the tier, and does not read them back yet"
_STORES = "isthmus.remote.store names the store"
_SHARE = "this release does not support share groups"
_JAVA = "it names Java classes"
_ONE_THREAD = "the work runs on one thread"
_NO_QUEUE = "requests are not queued: a connection serves one at a time"
_NO_WINDOWS = "rates are measured continuously, not in windows"
_NO_JMX = "metrics are read over HTTP (isthmus.http.listen)"
_AT_ONCE = "records are written as soon as they are there"

_PREFIXES: Final[Mapping[str, str]] = {
    "delegation.token.": _SECURITY,
    "sasl.": _SECURITY,
    "ssl.": _SECURITY,
    "group.share.": _SHARE,
    "share.": _SHARE,
    "local.retention.": _TIERED,
    "log.local.retention.": _TIERED,
    "socket.connection.setup.": "nodes wait for a connection as long as for a response",
    "remote.fetch.": _TIERED,
    "remote.list.offsets.": _TIERED,
    "remote.log.index.file.cache.": _TIERED,
    "remote.log.manager.copy.": _TIERED,
    "remote.log.manager.expiration.": _TIERED,
    "remote.log.manager.fetch.": _TIERED,
    "remote.log.manager.follower.": _TIERED,
    "remote.log.manager.task.retry.": "a task is retried at the next interval",
    "remote.log.manager.thread.": _TIERED,
    "remote.log.metadata.": "the metadata of the tier is in __remote_log_metadata",
    "remote.log.reader.": _TIERED,
    "remote.log.storage.manager.": _STORES,
    "kafka.metrics.": _NO_JMX,
    "metric": _NO_JMX,
    "quota.window.": _NO_WINDOWS,
}
_NAMES: Final[Mapping[str, str]] = {
    "transaction.state.log.load.buffer.size": "logs are read segment by segment",
    "transaction.two.phase.commit.enable": "it needs InitProducerId 6, which is an unstable version",
    "alter.config.policy.class.name": _JAVA,
    "client.quota.callback.class": _JAVA,
    "config.providers": _JAVA,
    "create.topic.policy.class.name": _JAVA,
    "alter.log.dirs.replication.quota.window.num": _NO_WINDOWS,
    "alter.log.dirs.replication.quota.window.size.seconds": _NO_WINDOWS,
    "controller.quota.window.num": _NO_WINDOWS,
    "controller.quota.window.size.seconds": _NO_WINDOWS,
    "authorizer.class.name": _SECURITY,
    "early.start.listeners": _SECURITY,
    "principal.builder.class": _SECURITY,
    "security.providers": _SECURITY,
    "connection.failed.authentication.delay.ms": _SECURITY,
    "connections.max.reauth.ms": _SECURITY,
    "controller.quorum.append.linger.ms": _AT_ONCE,
    "controller.performance.always.log.threshold.ms": _NO_JMX,
    "controller.performance.sample.period.ms": _NO_JMX,
    "telemetry.max.bytes": "metrics of clients are not collected",
    "delete.records.purgatory.purge.interval.requests": "completed requests are forgotten at once",
    "fetch.purgatory.purge.interval.requests": "completed requests are forgotten at once",
    "producer.purgatory.purge.interval.requests": "completed requests are forgotten at once",
    "follower.fetch.last.tiered.offset.enable": _TIERED,
    "group.coordinator.append.linger.ms": _AT_ONCE,
    "group.coordinator.background.threads": _ONE_THREAD,
    "group.coordinator.cached.buffer.max.bytes": _ONE_THREAD,
    "group.coordinator.threads": _ONE_THREAD,
    "num.replica.alter.log.dirs.threads": _ONE_THREAD,
    "num.network.threads": _ONE_THREAD,
    "num.io.threads": _ONE_THREAD,
    "background.threads": _ONE_THREAD,
    "log.cleaner.threads": _ONE_THREAD,
    "internal.metadata.delete.delay.millis": "old segments of the metadata log are deleted at once",
    "internal.metadata.log.segment.bytes": "use metadata.log.segment.bytes",
    "internal.metadata.max.batch.size.in.bytes": "the size of a batch is fixed",
    "log.cleaner.io.buffer.load.factor": "the cleaner's memory is bounded by log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.size": "the cleaner reads one batch at a time",
    "metadata.max.retention.bytes": "a metadata snapshot is deleted when the next is complete",
    "metadata.max.retention.ms": "a metadata snapshot is deleted when the next is complete",
    "offsets.load.buffer.size": "the size of a read is fixed",
    "offsets.topic.compression.codec": "records of __consumer_offsets are not compressed",
    "queued.max.request.bytes": _NO_QUEUE,
    "queued.max.requests": _NO_QUEUE,
    "replica.socket.receive.buffer.bytes": "the operating system chooses the size of socket buffers",
    "unclean.leader.election.interval.ms": "an unclean election happens as soon as it is allowed",
    "unstable.api.versions.enable": "there are no unstable versions",
    "unstable.feature.versions.enable": "there are no unstable versions",
}


def why_without_effect(name: str) -> str | None:
    """Why a setting has no effect; None for one that has."""
    if (reason := _NAMES.get(name)) is not None:
        return reason
    return next((reason for prefix, reason in _PREFIXES.items() if name.startswith(prefix)), None)


def messages_for(given: Iterable[str]) -> list[str]:
    """A message for each given setting that has no effect."""
    reasons = ((name, why_without_effect(name)) for name in sorted(given))
    return [f"{name} has no effect: {reason}" for name, reason in reasons if reason is not None]
