"""`isthmus balance`: plan and execute moves in a cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isthmus_cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from isthmus_balancer.core.plan import Plan
    from isthmus_client.client import Client

balance_app = typer.Typer(
    help="Spread load over the brokers of a cluster: plan, execute, clean up.", no_args_is_help=True
)
RemoveOption = Annotated[
    list[int] | None, typer.Option("--remove", metavar="BROKER", help="Empty this broker; may be repeated.")
]
_BROKERS = ("broker", "rack", "replicas", "leaders", "disk_mb", "network_out_kb_s")
_GOALS = ("goal", "must_hold", "violations", "spread")
_MOVES = ("partition", "from", "to", "what", "mb", "crosses_regions", "goal", "reason")
_SHOWN_MAX = 40


@balance_app.command("plan")
def plan_command(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, remove: RemoveOption = None, output: OutputOption = Output.TABLE
) -> None:
    """Show what would be moved and why, with each broker's load before and after. Changes nothing."""
    from isthmus_cli.session import run

    _show(run(bootstrap, lambda client: _make(client, remove or ())), output)


@balance_app.command("execute")
def execute_command(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    remove: RemoveOption = None,
    throttle: Annotated[
        int, typer.Option("--throttle", min=0, help="Bytes per second per broker; 0 disables the throttle.")
    ] = 10_000_000,
    at_once: Annotated[int, typer.Option("--at-once", min=1, help="Concurrent partition moves per broker.")] = 5,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a plan and execute it; Ctrl-C cancels moves in progress. Throttles are always removed."""
    from isthmus_balancer.core.schedule import Pace
    from isthmus_balancer.edge.executor import Executor, Progress

    from isthmus_cli.session import complain, run

    async def work(client: Client) -> tuple[Plan, Progress]:
        plan = await _make(client, remove or ())
        pace = Pace(per_broker=at_once, bytes_per_second=throttle)
        return plan, await Executor(client, plan.targets, plan.observers, pace).run()

    plan, progress = run(bootstrap, work)
    _show(plan, output)
    for partition, why in progress.failures.items():
        complain(f"{partition}: {why}")
    if progress.failures:
        raise typer.Exit(1)


@balance_app.command("clean-up")
def clean_up_command(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP) -> None:
    """Remove throttles that a killed run has left."""
    from isthmus_balancer.edge.throttles import Throttles

    from isthmus_cli.session import run

    removed = run(bootstrap, lambda client: Throttles(client).lift_left_behind())
    print("throttles of an earlier run were removed" if removed else "no throttles of an earlier run")


async def _make(client: Client, remove: Sequence[int]) -> Plan:
    from isthmus_balancer.core.planner import make_plan
    from isthmus_balancer.edge.monitor import observe

    state = await observe(client, remove)
    unknown = sorted(set(remove) - state.brokers.keys())
    if unknown:
        raise typer.BadParameter(f"there is no broker {unknown[0]}", param_hint="'--remove'")
    return await asyncio.to_thread(make_plan, state)


def _show(plan: Plan, output: Output) -> None:
    from isthmus_cli.output import show_json, show_table
    from isthmus_cli.session import complain

    if output is Output.JSON:
        show_json(as_json(plan))
        return
    print(f"{len(plan.moves)} moves of {len(plan.targets)} partitions, {plan.bytes / 1e6:.1f} MB to copy\n")
    show_table(_BROKERS, [_broker(before, after) for before, after in zip(plan.before, plan.after, strict=True)])
    print()
    show_table(_GOALS, [_goal(score) for score in plan.goals])
    if plan.moves:
        print()
        show_table(_MOVES, [_move(move) for move in plan.moves[:_SHOWN_MAX]])
    if len(plan.moves) > _SHOWN_MAX:
        print(f"… and {len(plan.moves) - _SHOWN_MAX} more; -o json shows all")
    for trouble in (*plan.unknown_loads, *plan.unfixable):
        complain(trouble)


def as_json(plan: Plan) -> dict[str, Any]:
    """The plan as JSON."""
    from dataclasses import asdict

    data = asdict(plan)
    data["targets"] = [{"topic": t, "partition": p, "replicas": list(r)} for (t, p), r in plan.targets.items()]
    del data["observers"]
    return data


def _broker(before: Any, after: Any) -> dict[str, object]:
    def change(old: float, new: float, unit: float = 1) -> str:
        return f"{old / unit:.0f}" if old == new else f"{old / unit:.0f} → {new / unit:.0f}"

    return {
        "broker": before.broker,
        "rack": before.rack,
        "replicas": change(before.replicas, after.replicas),
        "leaders": change(before.leaders, after.leaders),
        "disk_mb": change(before.disk, after.disk, 1e6),
        "network_out_kb_s": change(before.network_out, after.network_out, 1e3),
    }


def _goal(score: Any) -> dict[str, object]:
    return {
        "goal": score.goal,
        "must_hold": score.hard,
        "violations": f"{score.violations_before} → {score.violations_after}",
        "spread": f"{score.spread_before:.2f} → {score.spread_after:.2f}" if score.spread_before else "",
    }


def _move(move: Any) -> dict[str, object]:
    return {
        "partition": f"{move.topic}-{move.partition}",
        "from": move.source,
        "to": move.target,
        "what": "leadership" if move.leadership else "replica",
        "mb": "" if move.leadership else f"{move.bytes / 1e6:.1f}",
        "crosses_regions": move.crosses_regions,
        "goal": move.goal,
        "reason": move.reason,
    }
