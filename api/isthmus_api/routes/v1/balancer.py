"""Plans of the balancer: what it would move and why. Plans are not stored; a task of kind `execute-plan` executes one."""

from __future__ import annotations

import asyncio

from isthmus_balancer.core.plan import BrokerLoad, GoalScore, Move, Plan
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


class TargetData(Shape):
    """The target brokers of a partition, the preferred leader first, as `execute-plan` accepts them."""

    topic_name: str
    partition_id: int
    broker_ids: list[int]
    observers: int


class PlanData(Shape):
    """A plan, with the brokers before and after it."""

    cluster_id: str
    made_ms: int
    bytes: int
    moves: list[Move]
    targets: list[TargetData]
    before: list[BrokerLoad]
    after: list[BrokerLoad]
    goals: list[GoalScore]
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
    return PlanData(
        cluster_id=cluster_id,
        made_ms=now_ms,
        bytes=plan.bytes,
        moves=list(plan.moves),
        targets=[
            TargetData(
                topic_name=topic, partition_id=index, broker_ids=list(brokers), observers=plan.observers[topic, index]
            )
            for (topic, index), brokers in plan.targets.items()
        ],
        before=list(plan.before),
        after=list(plan.after),
        goals=list(plan.goals),
        unfixable=list(plan.unfixable),
        unknown_loads=list(plan.unknown_loads),
    )
