"""The active controller: decides requests, monitors brokers, and resumes unfinished work of its predecessor."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

from isthmus_model.clocks import Clocks

from isthmus_broker.core.metadata.brokers import fence_dead_broker, fence_stale_brokers
from isthmus_broker.core.metadata.features import activation_records
from isthmus_broker.core.metadata.operation import ControllerOperation, DecisionContext, KraftVersion
from isthmus_broker.core.metadata.result import ControllerContext, ControllerError, Result
from isthmus_broker.core.metadata.sessions import Sessions
from isthmus_broker.edge.background import background
from isthmus_broker.edge.controller.controller import Controller, NotController
from isthmus_broker.edge.controller.liveness import BrokerLiveness
from isthmus_broker.edge.controller.maintenance import ControllerMaintenance
from isthmus_broker.edge.quorum.raft_driver import RaftDriver

logger = logging.getLogger(__name__)

STALL_MS: Final = 100
"""If the check for expired sessions runs this late, the process was stalled, and heartbeats that arrived meanwhile are still unread."""


class QuorumOperation(NamedTuple):
    """A request that the leader of the quorum serves from its raft state instead of the image."""

    decide: Callable[[RaftDriver, Any, ControllerContext], Awaitable[Any]]
    refuse: Callable[[Any, ControllerError], Any]


Operation = ControllerOperation | QuorumOperation


class ActiveController:
    """Serves requests, in the classes of their highest versions, while this node is the active controller."""

    def __init__(
        self,
        controller: Controller,
        context: Callable[[], ControllerContext],
        operation_of: Callable[[int], Operation],
        broker_listener: str | None,
        on_ready: Callable[[], None],
        clocks: Clocks,
    ) -> None:
        """`operation_of` finds the operation of an API key in the table of requests."""
        self._controller = controller
        self._context = context
        self._operation_of = operation_of
        self._on_ready = on_ready
        self._clocks = clocks
        self._sessions: Sessions | None = None
        self._task: asyncio.Task[None] | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._maintenance = ControllerMaintenance(controller, context)
        self.liveness = BrokerLiveness(lambda: controller.history.latest, broker_listener, self._fence_dead)

    @property
    def is_ready(self) -> bool:
        """Whether it serves requests."""
        return self._sessions is not None

    def leadership_changed(self, leads: bool) -> None:
        """Become active, or stop being active."""
        if leads:
            self._task = background(self._activate())
        else:
            self.stop()

    def stop(self) -> None:
        """Serve no more requests."""
        self._sessions = None
        self._maintenance.stop()
        self.liveness.stop()
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    async def decide(self, request: Any) -> Any:
        """The response, once the decision is committed; raises NotController."""
        sessions = self._sessions
        if sessions is None:
            raise NotController
        operation = self._operation_of(request.__api_key__)
        if isinstance(operation, QuorumOperation):
            assert self._controller.raft is not None
            return await operation.decide(self._controller.raft, request, self._context())
        response = await self._controller.run(
            lambda image: operation.perform(image, request, self._decision_context(sessions))
        )
        self._watch_sessions()
        return response

    def _decision_context(self, sessions: Sessions) -> DecisionContext:
        raft = self._controller.raft
        assert raft is not None
        return DecisionContext.of(
            self._context(),
            wall_ms=self._clocks.wall(),
            monotonic_ms=self._clocks.monotonic(),
            sessions=sessions,
            next_offset=raft.core.log_end,
            kraft=KraftVersion(raft.core.kraft_version, raft.core.can_upgrade),
        )

    async def _activate(self) -> None:
        controller, context = self._controller, self._context()
        history = controller.history
        try:
            await controller.run(
                lambda image: Result(activation_records(image, context, in_transaction=history.in_transaction), None)
            )
        except NotController:
            return
        # Every broker gets a fresh session, except for the previous life of this very process and the broker of the previous controller.
        sessions = Sessions(history.latest, context.node.settings.broker_session_timeout_ms, self._clocks.monotonic())
        sessions.forget(context.node.node_id)
        assert controller.raft is not None
        if (contact := controller.raft.core.predecessor_contact) is not None:
            sessions.backdate(*contact)
        self._sessions = sessions
        self.liveness.probe_all(except_for=context.node.node_id)
        self._watch_sessions()
        self._maintenance.start()
        self._on_ready()

    # -- stale and dead brokers ----------------------------------------------------------------------------------------------

    def _watch_sessions(self) -> None:
        """Schedule the check for the next session timeout."""
        deadline = None if self._sessions is None or self._expiry is not None else self._sessions.deadline()
        if deadline is not None:
            now = self._clocks.monotonic()
            due = max(deadline, now)
            self._expiry = asyncio.get_running_loop().call_later((due - now) / 1000, self._sessions_may_end, due)

    def _sessions_may_end(self, due_ms: int) -> None:
        late_ms = self._clocks.monotonic() - due_ms
        if late_ms >= STALL_MS:
            logger.warning(
                "this controller was stalled for %d ms: serving waiting heartbeats before it fences", late_ms
            )
            delay = min(late_ms, self._context().node.settings.broker_session_timeout_ms) / 1000
            self._expiry = asyncio.get_running_loop().call_later(delay, self._end_sessions)
        else:
            self._end_sessions()

    def _end_sessions(self) -> None:
        self._expiry = None
        self._task = background(self._fence_stale())

    async def _fence_stale(self) -> None:
        controller, fenced = self._controller, -1
        while (sessions := self._sessions) is not None:
            now = self._clocks.monotonic()
            stale = sessions.expired(controller.history.latest, now)
            if not stale:
                sessions.forget_expired(now)
                self._watch_sessions()
                return
            if stale[0] != fenced:
                fenced = stale[0]
                logger.info("fencing broker %d: no heartbeat for a session timeout", fenced)
            try:
                await controller.run(
                    partial(fence_stale_brokers, context=self._context(), sessions=sessions, now_ms=now)
                )
            except NotController:
                return

    async def _fence_dead(self, broker_id: int, epoch: int) -> None:
        sessions = self._sessions
        if sessions is None:
            return
        with suppress(NotController):
            await self._controller.run(
                lambda image: fence_dead_broker(image, self._context(), sessions, broker_id, epoch)
            )
