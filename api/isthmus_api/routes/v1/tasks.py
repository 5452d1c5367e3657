"""Tasks: long work, with progress and cancellation."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from isthmus_api.limits import PAGE_MAX
from isthmus_api.models import Shape
from isthmus_api.problems import Problem
from isthmus_api.registry import Routes
from isthmus_api.request_context import Call
from isthmus_api.store.work import ItemState, Task, TaskState
from isthmus_api.tasks.kinds import CreateTaskRequest

routes = Routes("Tasks", "/api/v1")
_ID = r"^[0-9a-f-]{36}$"


class TaskPath(BaseModel):
    """One task."""

    task_id: str = Field(pattern=_ID)


class TaskQuery(BaseModel):
    """A page of tasks."""

    before: str = Field("", pattern=r"^([0-9a-f-]{36})?$", description="The last task of the page before.")
    limit: int = Field(100, ge=1, le=PAGE_MAX)


class ItemQuery(BaseModel):
    """A part of the items."""

    after: int = Field(-1, ge=-1, le=2**31 - 1, description="The position of the last item of the page before.")
    limit: int = Field(PAGE_MAX, ge=1, le=PAGE_MAX)


class TaskData(Shape):
    """A task and its progress."""

    task_id: str
    kind: str
    state: TaskState
    actor: str
    cluster_id: str
    message: str
    created_ms: int
    updated_ms: int
    total: int
    done: int
    failed: int


class TaskList(Shape):
    """The newest first; `next` is the cursor of the next page."""

    tasks: list[TaskData]
    next: str | None


class TaskItem(Shape):
    """One item of a task and its state."""

    position: int
    item: dict[str, Any]
    state: ItemState
    message: str


class TaskItemList(Shape):
    """In order; `next` is the cursor of the next page."""

    items: list[TaskItem]
    next: int | None


@routes.get("/tasks")
async def list_tasks(call: Call, query: TaskQuery) -> TaskList:
    """List the tasks."""
    page = await call.parts.work.page(query.before or None, query.limit)
    return TaskList(tasks=[_task(task) for task in page], next=page[-1].task_id if len(page) == query.limit else None)


@routes.post("/tasks", status=202)
async def create_task(call: Call, body: CreateTaskRequest) -> TaskData:
    """Start a task."""
    return _task(await call.parts.runner.add(body.root, call.actor))


@routes.get("/tasks/{task_id}")
async def get_task(call: Call, path: TaskPath) -> TaskData:
    """Get a task."""
    return _task(await _existing_task(call, path.task_id))


@routes.get("/tasks/{task_id}/items")
async def list_task_items(call: Call, path: TaskPath, query: ItemQuery) -> TaskItemList:
    """List the items of a task."""
    await _existing_task(call, path.task_id)
    items = await call.parts.work.items(path.task_id, after=query.after, most=query.limit)
    data = [TaskItem(position=one.position, item=dict(one.item), state=one.state, message=one.message) for one in items]
    return TaskItemList(items=data, next=items[-1].position if len(items) == query.limit else None)


@routes.post("/tasks/{task_id}:cancel")
async def cancel_task(call: Call, path: TaskPath) -> TaskData:
    """Cancel a task; finished items stay finished."""
    return _task(await call.parts.runner.cancel(path.task_id))


async def _existing_task(call: Call, task_id: str) -> Task:
    task = await call.parts.work.task(task_id)
    if task is None:
        raise Problem(404, f"There is no task {task_id}.")
    return task


def _task(task: Task) -> TaskData:
    return TaskData(
        task_id=task.task_id,
        kind=task.kind,
        state=task.state,
        actor=task.actor,
        cluster_id=task.input["cluster_id"],
        message=task.message,
        created_ms=task.created_ms,
        updated_ms=task.updated_ms,
        total=task.total,
        done=task.done,
        failed=task.failed,
    )
