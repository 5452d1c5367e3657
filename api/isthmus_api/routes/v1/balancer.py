"""Plans of the balancer: what it would move and why. Plans are not stored; a task of kind `execute-plan` executes one."""

from __future__ import annotations

import asyncio

from isthmus_balancer.core.plan import Goal, Plan
from isthmus_balancer.core.planner import make_plan
from isthmus_balancer.edge.monitor import observe
from isthmus_model.clocks import WallMs
from pydantic import BaseModel, Field

from isthmus_api.models import RequestBody, Shape
from isthmus_api.problems import Problem
from isthmus_api.registry import Routes
from isthmus_api.request_context import Call

routes = Routes("Balancer", "/api/v1")
_PLAN_SECONDS = 120.0


class ClusterPath(BaseModel):
    """A registered cluster."""

    cluster_id: str = Field(min_length=1, max_length=255)


class PlanRequest(RequestBody):
    """What to plan for."""

    leaving: list[int] = Field(default_factory=list, max_length=1000, description="Brokers to empty.")


class MoveData(Shape):
    """A replica, or its leadership alone, from one broker to another."""

    topic_name: str
    partition_id: int
    source: int
    target: int
    leadership: bool
    goal: Goal
    reason: str
    bytes: int
    crosses_regions: bool


class TargetData(Shape):
    """The target brokers of a partition, the preferred leader first, as `execute-plan` accepts them."""

    topic_name: str
    partition_id: int
    broker_ids: list[int]
    observers: int


class BrokerLoadData(Shape):
    """A broker's load, in bytes and bytes per second."""

    broker_id: int
    rack: str
    replicas: int
    leaders: int
    disk: int
    network_out: float


class GoalData(Shape):
    """Violations, and for each goal the highest load over the average."""

    goal: Goal
    hard: bool
    violations_before: int
    violations_after: int
    spread_before: float
    spread_after: float


class PlanData(Shape):
    """A plan, with the brokers before and after it."""

    cluster_id: str
    made_ms: int
    bytes: int
    moves: list[MoveData]
    targets: list[TargetData]
    before: list[BrokerLoadData]
    after: list[BrokerLoadData]
    goals: list[GoalData]
    unfixable: list[str]
    unknown_loads: list[str]


@routes.post("/clusters/{cluster_id}/balancer/plans")
async def make_balancer_plan(call: Call, path: ClusterPath, body: PlanRequest) -> PlanData:
    """Make a plan that spreads the load of a cluster. Nothing is moved."""
    async with call.parts.clusters.use(path.cluster_id, _PLAN_SECONDS) as client:
        state = await observe(client, body.leaving)
    unknown = sorted(set(body.leaving) - state.brokers.keys())
    if unknown:
        raise Problem(404, f"There is no broker {unknown[0]}.")
    plan = await asyncio.to_thread(make_plan, state)
    return _plan_data(path.cluster_id, call.parts.now_ms(), plan)


def _plan_data(cluster_id: str, now_ms: WallMs, plan: Plan) -> PlanData:
    before, after = (
        [
            BrokerLoadData(
                broker_id=load.broker,
                rack=load.rack,
                replicas=load.replicas,
                leaders=load.leaders,
                disk=load.disk,
                network_out=load.network_out,
            )
            for load in loads
        ]
        for loads in (plan.before, plan.after)
    )
    return PlanData(
        cluster_id=cluster_id,
        made_ms=now_ms,
        bytes=plan.bytes,
        moves=[
            MoveData(
                topic_name=move.topic,
                partition_id=move.partition,
                source=move.source,
                target=move.target,
                leadership=move.leadership,
                goal=move.goal,
                reason=move.reason,
                bytes=move.bytes,
                crosses_regions=move.crosses_regions,
            )
            for move in plan.moves
        ],
        targets=[
            TargetData(
                topic_name=topic, partition_id=index, broker_ids=list(brokers), observers=plan.observers[topic, index]
            )
            for (topic, index), brokers in plan.targets.items()
        ],
        before=before,
        after=after,
        goals=[
            GoalData(
                goal=score.goal,
                hard=score.hard,
                violations_before=score.violations_before,
                violations_after=score.violations_after,
                spread_before=score.spread_before,
                spread_after=score.spread_after,
            )
            for score in plan.goals
        ],
        unfixable=list(plan.unfixable),
        unknown_loads=list(plan.unknown_loads),
    )
