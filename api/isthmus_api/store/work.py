"""Tasks and their items: state, progress, and the process that holds each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from isthmus_model.clocks import WallMs
from sqlalchemy import Select, case, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from isthmus_api.limits import TASKS_KEPT, TASKS_OPEN_MAX
from isthmus_api.problems import Problem
from isthmus_api.store.tables import task_items, tasks


class TaskState(StrEnum):
    """A task is open until it is finished."""

    OPEN = "OPEN"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class ItemState(StrEnum):
    """The state of an item."""

    PENDING = "PENDING"
    DONE = "DONE"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Task:
    """One task with the counts of its items."""

    task_id: str
    kind: str
    state: TaskState
    actor: str
    input: Mapping[str, Any]
    message: str
    created_ms: int
    updated_ms: int
    total: int
    done: int
    failed: int


@dataclass(frozen=True, slots=True)
class Item:
    """One step of a task; it can be repeated."""

    position: int
    item: Mapping[str, Any]
    state: ItemState
    message: str


class Work:
    """The tasks of all processes of the control plane."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def add(
        self, task_id: str, kind: str, actor: str, settings: Mapping[str, Any], items: Sequence[Any], now_ms: WallMs
    ) -> None:
        """Add a task; raises Problem when too many are open. The oldest finished ones are deleted."""
        async with self._engine.begin() as connection:
            is_open = tasks.c.state == TaskState.OPEN
            count = (await connection.execute(select(func.count()).select_from(tasks).where(is_open))).scalar_one()
            if count >= TASKS_OPEN_MAX:
                raise Problem(429, f"{TASKS_OPEN_MAX} tasks are not finished yet; wait for one, or cancel one.")
            old = select(tasks.c.task_id).where(~is_open).order_by(tasks.c.created_ms.desc()).offset(TASKS_KEPT)
            # SQLite has no OFFSET without LIMIT.
            await connection.execute(delete(tasks).where(tasks.c.task_id.in_(old.limit(TASKS_OPEN_MAX))))
            await connection.execute(
                insert(tasks).values(
                    task_id=task_id,
                    kind=kind,
                    state=TaskState.OPEN,
                    actor=actor,
                    input=dict(settings),
                    message="",
                    created_ms=now_ms,
                    updated_ms=now_ms,
                    owner=None,
                    owned_until_ms=0,
                )
            )
            rows = [
                {"task_id": task_id, "position": position, "item": item, "state": ItemState.PENDING, "message": ""}
                for position, item in enumerate(items)
            ]
            await connection.execute(insert(task_items), rows)

    async def page(self, before: str | None, most: int) -> list[Task]:
        """A page of tasks older than `before`, the newest first."""
        query = _counted().order_by(tasks.c.created_ms.desc(), tasks.c.task_id.desc()).limit(most)
        if before is not None:
            known = await self.task(before)
            if known is None:
                raise Problem(400, f"query.before: there is no task {before}")
            same_time = (tasks.c.created_ms == known.created_ms) & (tasks.c.task_id < known.task_id)
            query = query.where((tasks.c.created_ms < known.created_ms) | same_time)
        return await self._tasks(query)

    async def task(self, task_id: str) -> Task | None:
        """One task."""
        rows = await self._tasks(_counted().where(tasks.c.task_id == task_id))
        return rows[0] if rows else None

    async def open_tasks(self) -> list[Task]:
        """Unfinished tasks, the oldest first."""
        return await self._tasks(_counted().where(tasks.c.state == TaskState.OPEN).order_by(tasks.c.created_ms))

    async def items(
        self, task_id: str, state: ItemState | None = None, *, after: int = -1, most: int | None = None
    ) -> list[Item]:
        """A page of items after a position."""
        query = select(task_items.c.position, task_items.c.item, task_items.c.state, task_items.c.message)
        where = (task_items.c.task_id == task_id) & (task_items.c.position > after)
        query = query.where(where).order_by(task_items.c.position).limit(most)
        if state is not None:
            query = query.where(task_items.c.state == state)
        async with self._engine.connect() as connection:
            rows = (await connection.execute(query)).mappings().all()
        return [Item(row["position"], row["item"], ItemState(row["state"]), row["message"]) for row in rows]

    async def claim(self, task_id: str, owner: str, now_ms: WallMs, until_ms: int) -> bool:
        """Take the lease of an open task without a holder, or renew one's own; returns whether it is held."""
        free = (tasks.c.owner == owner) | (tasks.c.owned_until_ms <= now_ms)
        where = (tasks.c.task_id == task_id) & (tasks.c.state == TaskState.OPEN) & free
        async with self._engine.begin() as connection:
            values = {"owner": owner, "owned_until_ms": until_ms}
            return (await connection.execute(update(tasks).where(where).values(**values))).rowcount == 1

    async def note(
        self, task_id: str, outcomes: Mapping[int, tuple[ItemState, str]], message: str, now_ms: WallMs
    ) -> None:
        """Record the states of items and the task's message."""
        async with self._engine.begin() as connection:
            for position, (state, said) in outcomes.items():
                where = (task_items.c.task_id == task_id) & (task_items.c.position == position)
                await connection.execute(update(task_items).where(where).values(state=state, message=said))
            still = (tasks.c.task_id == task_id) & (tasks.c.state == TaskState.OPEN)
            await connection.execute(update(tasks).where(still).values(message=message, updated_ms=now_ms))

    async def finish(self, task_id: str, state: TaskState, message: str, now_ms: WallMs) -> bool:
        """Finish a task; returns whether it was open."""
        where = (tasks.c.task_id == task_id) & (tasks.c.state == TaskState.OPEN)
        values = {"state": state, "message": message, "updated_ms": now_ms, "owner": None}
        async with self._engine.begin() as connection:
            return (await connection.execute(update(tasks).where(where).values(**values))).rowcount == 1

    async def _tasks(self, query: Select[Any]) -> list[Task]:
        async with self._engine.connect() as connection:
            rows = (await connection.execute(query)).mappings().all()
        return [Task(**{**row, "state": TaskState(row["state"])}) for row in rows]


def _counted() -> Select[Any]:
    def items_in(state: ItemState) -> Any:
        return func.coalesce(func.sum(case((task_items.c.state == state, 1), else_=0)), 0)

    counts = (
        select(
            task_items.c.task_id,
            func.count().label("total"),
            items_in(ItemState.DONE).label("done"),
            items_in(ItemState.FAILED).label("failed"),
        )
        .group_by(task_items.c.task_id)
        .subquery()
    )
    columns = [column for column in tasks.c if column.name not in ("owner", "owned_until_ms")]
    return select(*columns, counts.c.total, counts.c.done, counts.c.failed).join(
        counts, counts.c.task_id == tasks.c.task_id
    )
