"""A worker's share of the partitions, through a group on the cluster that is written to."""

import asyncio
import logging
from collections.abc import Callable

from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.work_sharing import Share, SharingMember

logger = logging.getLogger(__name__)


async def follow_share(member: SharingMember, client: Client, worker: str, use: Callable[[Share], None]) -> None:
    """Join the group, and again after each rebalance, until cancelled.

    During a rebalance a worker continues with its old share: work done twice does no harm.
    """
    failures = 0
    while True:
        try:
            share = await member.join()
        except ClientError as error:
            failures += 1
            logger.warning("%s: cannot join the group that shares the work: %s", worker, error)
            await asyncio.sleep(client.pause(failures))
            continue
        failures = 0
        use(share)
        logger.info("%s: worker %d of %d", worker, share.number + 1, share.members)
        await member.lost.wait()
