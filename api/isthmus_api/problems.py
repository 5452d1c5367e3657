"""Errors of requests: a status, and the error document of Confluent's REST v3, `{"error_code": 40403, "message": "..."}`.

The first three digits of a code are the status; codes of five digits say more. Handlers raise Problem; errors of a
cluster's client are converted to one.
"""

from typing import Final

from isthmus_client.errors import ClientError, NotSupported, Refused
from isthmus_wire.errors import ErrorCode

UNKNOWN_TOPIC_OR_PARTITION: Final = 40403
UNAUTHENTICATED: Final = 40101
UNAUTHORIZED: Final = 40301
BAD_REQUEST: Final = 40002
UNSUPPORTED_VERSION: Final = 40035
KAFKA_FAILED: Final = 50002
KAFKA_RETRIABLE: Final = 50003
CLUSTER_UNREACHABLE: Final = 50302


class Problem(Exception):
    """The error response of a request."""

    def __init__(self, status: int, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code or status


_NOT_FOUND: Final = frozenset(
    {ErrorCode.group_id_not_found, ErrorCode.resource_not_found, ErrorCode.broker_not_available}
)
_UNKNOWN_TOPIC: Final = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id})
_UNAUTHORIZED: Final = frozenset(
    {
        ErrorCode.topic_authorization_failed,
        ErrorCode.group_authorization_failed,
        ErrorCode.cluster_authorization_failed,
    }
)
_PASSING: Final = frozenset(
    {
        ErrorCode.not_controller,
        ErrorCode.leader_not_available,
        ErrorCode.request_timed_out,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.not_leader_or_follower,
    }
)


def problem_of(error: ClientError, cluster: str) -> Problem:
    """The Problem for an error of a cluster's client."""
    if isinstance(error, Refused):
        return Problem(*_refusal(error))
    if isinstance(error, NotSupported):
        return Problem(400, f"Cluster {cluster} cannot do this: {error}", UNSUPPORTED_VERSION)
    return Problem(503, f"Cluster {cluster} is unreachable: {error}", CLUSTER_UNREACHABLE)


def _refusal(refused: Refused) -> tuple[int, str, int | None]:
    code = refused.code
    if code in _UNKNOWN_TOPIC:
        said = refused.broker_message or "This server does not host this topic-partition."
        return 404, said, UNKNOWN_TOPIC_OR_PARTITION
    if code in _NOT_FOUND:
        return 404, str(refused), None
    if code in _UNAUTHORIZED:
        return 403, str(refused), UNAUTHORIZED
    if code in _PASSING:
        return 500, str(refused), KAFKA_RETRIABLE
    if code is ErrorCode.unknown_server_error:
        return 500, str(refused), KAFKA_FAILED
    if code is ErrorCode.unsupported_version:
        return 400, str(refused), UNSUPPORTED_VERSION
    return 400, refused.broker_message or str(refused), BAD_REQUEST
