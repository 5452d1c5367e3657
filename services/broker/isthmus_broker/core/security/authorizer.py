"""Decides whether a principal may make a request."""

from typing import Final, NamedTuple, Protocol

from isthmus_wire.apis import ApiKey

from isthmus_broker.core.security.principal import Principal


class Attempt(NamedTuple):
    """A request, as far as authorisation needs it."""

    principal: Principal
    host: str
    api: ApiKey


class Authorizer(Protocol):
    """The check that dispatch makes before it calls a handler."""

    def allows(self, attempt: Attempt) -> bool:
        """Whether the principal may make the request."""
        ...


class _AllowAll:
    def allows(self, attempt: Attempt) -> bool:
        return True


ALLOW_ALL: Final[Authorizer] = _AllowAll()
"""The authoriser of a node without ACLs."""
