"""Names of a cluster's topics, groups and transactional ids, for the shell's completion."""

import asyncio

from isthmus_client.client import Client
from isthmus_model.endpoints import parse_bootstrap


def names_of(what: str, bootstrap: str, seconds: float) -> list[str]:
    """The names, looked up within the timeout; raises ClientError, ValueError, TimeoutError."""
    return asyncio.run(_within(what, bootstrap, seconds))


async def _within(what: str, bootstrap: str, seconds: float) -> list[str]:
    async with asyncio.timeout(seconds), Client(parse_bootstrap(bootstrap), operation_seconds=seconds) as client:
        if what == "groups":
            from isthmus_client.admin.groups import list_groups

            return [group.group_id for group in await list_groups(client)]
        if what == "transactions":
            from isthmus_client.admin.transactions import list_transactions

            return [one.transactional_id for one in await list_transactions(client)]
        from isthmus_client.admin.topics import list_topics

        return list(await list_topics(client))
