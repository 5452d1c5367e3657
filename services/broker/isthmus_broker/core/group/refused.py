"""How the parts of the coordinator say no: an exception that never leaves the shard, which turns it into the API's error response."""

from isthmus_wire.errors import ErrorCode


class Refused(Exception):
    """A request is answered with an error code and, where the API has a field for it, a message."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(error.name, message)
        self.error = error
        self.message = message


class GroupNotFound(Refused):
    """No such group, or none of the type that the request is about: some APIs treat that as an empty answer."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.group_id_not_found, message)
