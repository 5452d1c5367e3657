"""Decides whether a principal may make a request."""

from typing import Final, Protocol

from isthmus_wire.apis import ApiKey

from isthmus_broker.core.security.principal import Principal


class Authorizer(Protocol):
    """The check that dispatch makes before it calls a handler."""

    def allows(self, principal: Principal, host: str, api: ApiKey) -> bool:
        """Whether the principal may make the request from this host."""
        ...


class _AllowAll:
    def allows(self, principal: Principal, host: str, api: ApiKey) -> bool:
        return True


ALLOW_ALL: Final[Authorizer] = _AllowAll()
"""The authoriser of a node without ACLs."""
