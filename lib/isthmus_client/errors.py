"""What can go wrong when talking to a cluster.

ClientError                 anything this library raises by itself
├── ConnectionFailed        a broker is not reachable, or went away with requests unanswered; worth another attempt
│   └── RequestTimedOut     it holds the connection and does not answer
├── ProtocolBroken          a peer answers what is not Kafka's protocol
├── NotSupported            the broker is too old, or not configured, for what was asked
├── LogTruncated            records that were read are not in the log any more
├── Refused                 the cluster's own answer: an error code about one thing
└── GaveUp                  attempts went on failing until the deadline; `__cause__` is the last failure

Each message says what failed, about which thing, and, where it can, what to do.
"""

from typing import Final

from isthmus_wire.errors import ErrorCode

ADVICE: Final[dict[ErrorCode, str]] = {
    ErrorCode.unknown_topic_or_partition: "it does not exist; list topics to see the names",
    ErrorCode.unknown_topic_id: "it was deleted, or deleted and made again",
    ErrorCode.topic_already_exists: "a topic of this name exists already",
    ErrorCode.invalid_replication_factor: "there are not that many brokers",
    ErrorCode.invalid_partitions: "the number of partitions does not fit",
    ErrorCode.group_id_not_found: "there is no such group",
    ErrorCode.non_empty_group: "the group still has members; stop its consumers first",
    ErrorCode.group_subscribed_to_topic: "the group is subscribed to it; stop its consumers first",
    ErrorCode.unknown_member_id: "the group has other members; stop its consumers first",
    ErrorCode.offset_out_of_range: "the log does not reach there",
    ErrorCode.leader_not_available: "no replica can lead the partition; look at its in-sync replicas",
    ErrorCode.not_enough_replicas: "fewer replicas are in sync than min.insync.replicas asks",
    ErrorCode.message_too_large: "the record batch is larger than max.message.bytes",
    ErrorCode.invalid_config: "a config is not valid",
    ErrorCode.unsupported_version: "the broker is too old for this",
    ErrorCode.topic_authorization_failed: "not authorized for the topic",
    ErrorCode.group_authorization_failed: "not authorized for the group",
    ErrorCode.cluster_authorization_failed: "not authorized for the cluster",
}


class ClientError(Exception):
    """Anything this library raises by itself."""


class ConnectionFailed(ClientError):
    """A broker cannot be reached, or went away before it answered."""


class RequestTimedOut(ConnectionFailed):
    """A broker that holds the connection did not answer in time."""


class ProtocolBroken(ClientError):
    """The peer does not speak Kafka's protocol."""


class NotSupported(ClientError):
    """The broker cannot do what was asked in any version that both sides know."""


class Refused(ClientError):
    """The cluster's answer about one thing (`subject`) is an error code."""

    def __init__(self, code: ErrorCode, subject: str, message: str | None = None) -> None:
        self.code = code
        self.subject = subject
        self.broker_message = message
        explanation = message or ADVICE.get(code)
        super().__init__(f"{subject}: {code.name}" + (f": {explanation}" if explanation else ""))


class LogTruncated(ClientError):
    """An unclean election or a restored disk took away records that were read already: the log ends earlier, or goes on otherwise."""

    def __init__(self, partition: object, position: int, end_offset: int) -> None:
        self.position = position
        self.end_offset = end_offset
        super().__init__(
            f"partition {partition} was read up to offset {position}, and its log is another one from offset {end_offset} on: "
            "records were lost. Check what was made of them, then seek to where to go on."
        )


class GaveUp(ClientError):
    """No attempt succeeded before the deadline."""


def check(code: ErrorCode, subject: str, message: str | None = None) -> None:
    """Raise Refused unless the code is none."""
    if code is not ErrorCode.none:
        raise Refused(code, subject, message)
