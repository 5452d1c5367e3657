"""The errors of the client.

ClientError                 base of all errors of this library
├── ConnectionFailed        a broker is unreachable, or closed the connection before it responded; retriable
│   └── RequestTimedOut     the broker keeps the connection open but does not respond
├── ProtocolBroken          a peer does not speak Kafka's protocol
├── NotSupported            the broker is too old, or not configured, for the request
├── LogTruncated            records that were read are no longer in the log
├── Refused                 the cluster's response is an error code about one subject
├── GaveUp                  every attempt failed until the deadline; `__cause__` is the last failure
└── TransactionError        a transactional producer cannot do this now; the subclass says what to do
    ├── IllegalCall         nothing happened: the call does not fit the state of the transaction
    ├── MustAbort           abort the transaction, then repeat its work in a new one; `__cause__` is why
    ├── OutcomeUnknown      no response to commit or abort: make the same call again
    └── ProducerUnusable    close the producer; `__cause__` is why
        └── ProducerFenced  another producer uses the transactional id now

Each message says what failed, for which subject, and, if possible, what to do.
"""

from typing import Final

from isthmus_wire.errors import ErrorCode

ADVICE: Final[dict[ErrorCode, str]] = {
    ErrorCode.unknown_topic_or_partition: "it does not exist; list topics to see the names",
    ErrorCode.unknown_topic_id: "it was deleted, or deleted and recreated",
    ErrorCode.topic_already_exists: "a topic of this name exists already",
    ErrorCode.invalid_replication_factor: "there are not that many brokers",
    ErrorCode.invalid_partitions: "the number of partitions does not fit",
    ErrorCode.group_id_not_found: "there is no such group",
    ErrorCode.non_empty_group: "the group still has members; stop its consumers first",
    ErrorCode.group_subscribed_to_topic: "the group is subscribed to it; stop its consumers first",
    ErrorCode.unknown_member_id: "the group has other members; stop its consumers first",
    ErrorCode.offset_out_of_range: "the offset is outside the log",
    ErrorCode.leader_not_available: "no replica can become leader of the partition; check its in-sync replicas",
    ErrorCode.not_enough_replicas: "fewer replicas are in sync than min.insync.replicas requires",
    ErrorCode.message_too_large: "the record batch is larger than max.message.bytes",
    ErrorCode.invalid_config: "a config is not valid",
    ErrorCode.unsupported_version: "the broker is too old for this",
    ErrorCode.topic_authorization_failed: "not authorized for the topic",
    ErrorCode.group_authorization_failed: "not authorized for the group",
    ErrorCode.cluster_authorization_failed: "not authorized for the cluster",
    ErrorCode.invalid_regular_expression: "the pattern is not a valid RE2 expression",
    ErrorCode.transactional_id_authorization_failed: "not authorized for the transactional id",
    ErrorCode.transactional_id_not_found: "there is no such transactional id, or it has expired",
    ErrorCode.invalid_transaction_timeout: "the timeout is longer than the brokers' transaction.max.timeout.ms",
    ErrorCode.transaction_abortable: "the partition or group is not in the transaction, or the transaction has ended",
    ErrorCode.concurrent_transactions: "the previous transaction is still being completed",
    ErrorCode.transaction_coordinator_fenced: "a newer transaction coordinator has already written a marker",
}


class ClientError(Exception):
    """Base of all errors of this library."""


class ConnectionFailed(ClientError):
    """A broker is unreachable, or closed the connection before it responded."""


class RequestTimedOut(ConnectionFailed):
    """A broker kept the connection open but did not respond in time."""


class ProtocolBroken(ClientError):
    """The peer does not speak Kafka's protocol."""


class NotSupported(ClientError):
    """No version of the API is common to client and broker."""


class Refused(ClientError):
    """The cluster's response about one thing (`subject`) is an error code."""

    def __init__(self, code: ErrorCode, subject: str, message: str | None = None) -> None:
        self.code = code
        self.subject = subject
        self.broker_message = message
        explanation = message or ADVICE.get(code)
        super().__init__(f"{subject}: {code.name}" + (f": {explanation}" if explanation else ""))


class LogTruncated(ClientError):
    """An unclean election or a restored disk removed records that were already read: the log is shorter, or has diverged."""

    def __init__(self, partition: object, position: int, end_offset: int) -> None:
        self.position = position
        self.end_offset = end_offset
        super().__init__(
            f"partition {partition} was read up to offset {position}, but its log has diverged at offset {end_offset}: "
            "records were lost. Check their effects downstream, then seek to the offset to continue from."
        )


class GaveUp(ClientError):
    """No attempt succeeded before the deadline."""


class TransactionError(ClientError):
    """A transactional producer cannot do what was called."""


class IllegalCall(TransactionError):
    """The call does not fit the state of the transaction; nothing has changed."""


class MustAbort(TransactionError):
    """The transaction cannot be committed: abort it, then repeat its work in a new one."""


class OutcomeUnknown(TransactionError):
    """Commit or abort got no response: make the same call again; until it succeeds, the outcome is unknown."""


class ProducerUnusable(TransactionError):
    """The producer can do nothing more: close it."""


class ProducerFenced(ProducerUnusable):
    """Another producer was started with the same transactional id, which fences this one."""


def check(code: ErrorCode, subject: str, message: str | None = None) -> None:
    """Raise Refused unless the code is none."""
    if code is not ErrorCode.none:
        raise Refused(code, subject, message)
