"""Errors of group coordination: exceptions inside a shard, which turns them into the API's error response."""

from isthmus_wire.errors import ErrorCode


class CoordinatorError(Exception):
    """The error code of a response and, where the API has a field for it, the message."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(error.name, message)
        self.error = error
        self.message = message


class UnknownGroup(CoordinatorError):
    """No such group, or none of the type that the request is about; some APIs respond as if it were empty."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.group_id_not_found, message)
