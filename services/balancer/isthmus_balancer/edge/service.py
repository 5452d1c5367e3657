"""The balancer's process: it monitors the load and balances it if the mode says so. One of several processes is active."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.work_sharing import SharingMember
from isthmus_model.endpoints import Endpoint
from prometheus_client import CollectorRegistry, Counter, Gauge

from isthmus_balancer.core.cluster import ClusterState, Limits
from isthmus_balancer.core.mode import Mode
from isthmus_balancer.core.plan import Plan
from isthmus_balancer.core.planner import make_plan
from isthmus_balancer.core.schedule import Pace
from isthmus_balancer.edge.executor import Executor
from isthmus_balancer.edge.monitor import observe
from isthmus_balancer.edge.throttles import Throttles

logger = logging.getLogger(__name__)

GROUP: Final = "__isthmus_balancer"
_PROTOCOL_TYPE: Final = "isthmus-balancer"
_PAUSE_SECONDS: Final = 2.0


class Balancer:
    """Monitor and balance a cluster until cancelled."""

    def __init__(
        self, bootstrap: Sequence[Endpoint], mode: Mode, interval_seconds: float, pace: Pace, limits: Limits
    ) -> None:
        self._bootstrap = bootstrap
        self._mode = mode
        self._interval = interval_seconds
        self._pace = pace
        self._limits = limits
        self._trouble = "the cluster has not been observed yet"
        self.registry = CollectorRegistry()
        self._active = Gauge(
            "isthmus_balancer_active", "1 if this process is the active balancer.", registry=self.registry
        )
        self._spread = Gauge(
            "isthmus_balancer_spread", "The ratio of the highest load to the average.", ["goal"], registry=self.registry
        )
        self._violations = Gauge(
            "isthmus_balancer_violations", "Brokers or replicas that violate a goal.", ["goal"], registry=self.registry
        )
        self._moves = Gauge("isthmus_balancer_planned_moves", "Moves in the current plan.", registry=self.registry)
        self._moved = Counter("isthmus_balancer_moved_partitions", "Partitions moved.", registry=self.registry)
        self._failed = Counter(
            "isthmus_balancer_failed_partitions", "Partitions that could not be moved.", registry=self.registry
        )

    def not_ready(self) -> str:
        """The reason why it is not ready; empty if it is."""
        return self._trouble

    async def run(self) -> None:
        """Run, and start again with a new client after errors."""
        while True:
            try:
                async with AsyncExitStack() as stack:
                    client = await stack.enter_async_context(Client(self._bootstrap, client_id="isthmus-balancer"))
                    member = SharingMember(client, GROUP, _PROTOCOL_TYPE)
                    stack.push_async_callback(member.leave)
                    while True:
                        await self._work_as(member, client)
            except ClientError as error:
                self._trouble = str(error)
                logger.warning("%s", error)
            self._active.set(0)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _work_as(self, member: SharingMember, client: Client) -> None:
        """Join the group, and balance until the next rebalance if this is the active process."""
        share = await member.join()
        self._active.set(int(share.number == 0))
        self._trouble = ""
        lost = asyncio.ensure_future(member.lost.wait())
        work = asyncio.ensure_future(self._balance(client)) if share.number == 0 else None
        try:
            await asyncio.wait([lost] if work is None else [lost, work], return_when=asyncio.FIRST_COMPLETED)
            if work is not None and work.done():
                work.result()
        finally:
            lost.cancel()
            if work is not None:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)

    async def _balance(self, client: Client) -> None:
        await Throttles(client).lift_left_behind()
        while True:
            state = await observe(client)
            plan = make_plan(state, self._limits)
            self._show(plan)
            if plan.targets and self._should_move(state):
                logger.info("moving %d partitions, %d bytes", len(plan.targets), plan.bytes)
                progress = await Executor(client, plan.targets, plan.observers, self._pace).run()
                self._moved.inc(progress.done)
                self._failed.inc(len(progress.failures))
            await asyncio.sleep(self._interval)

    def _should_move(self, state: ClusterState) -> bool:
        if self._mode is Mode.EMPTY_BROKER:
            used = {replica for partition in state.partitions for replica in partition.replicas}
            return any(broker.may_get and broker.broker_id not in used for broker in state.brokers.values())
        return self._mode is Mode.ANY_UNEVEN_LOAD

    def _show(self, plan: Plan) -> None:
        self._moves.set(len(plan.moves))
        for score in plan.goals:
            self._spread.labels(score.goal).set(score.spread_before)
            self._violations.labels(score.goal).set(score.violations_before)
