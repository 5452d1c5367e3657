"""Decides whether a principal may make a request."""

from typing import Final, NamedTuple, Protocol

from isthmus_wire.apis import ApiKey

from isthmus_broker.core.security.principal import Principal


class Attempt(NamedTuple):
    """A request, as far as authorisation is concerned."""

    principal: Principal
    host: str
    api: ApiKey


class Authorizer(Protocol):
    """The one question that dispatch asks before it calls a handler."""

    def allows(self, attempt: Attempt) -> bool:
        """Whether the request may be made."""
        ...


class _AllowAll:
    def allows(self, attempt: Attempt) -> bool:
        return True


ALLOW_ALL: Final[Authorizer] = _AllowAll()
"""The authoriser of a node without ACLs."""
