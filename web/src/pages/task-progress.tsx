// The progress of a task: by its events, and by polling, because only the process that runs it sends events.
import { Link } from "wouter";
import { api } from "../api/client";
import { useFeed } from "../api/feed";
import type { Task } from "../api/schema";
import { count, plain } from "../logic/format";
import { itemName } from "../logic/task-item";
import { StatePill } from "../ui/pill";
import { Table } from "../ui/table";

const ASK_MS = 1_500;

export function TaskProgress({ task }: { task: Task }) {
  const { tasks } = useFeed();
  const path = { task_id: task.task_id };
  const open = (state: string | undefined): boolean => (state ?? "OPEN") === "OPEN";
  const asked = api.useQuery("get", "/api/v1/tasks/{task_id}", { params: { path } }, { refetchInterval: (query) => (open(query.state.data?.state) ? ASK_MS : false) });
  const told = tasks[task.task_id];
  const shown = { ...task, ...asked.data, ...(told !== undefined && open(asked.data?.state) ? told : {}) };
  return (
    <div className="progress" role="status" aria-live="polite">
      <p>
        <StatePill state={shown.state} /> {plain(shown.kind)}: {count(shown.done)} of {count(shown.total)} done
        {shown.failed > 0 && `, ${count(shown.failed)} failed`}
      </p>
      <progress max={Math.max(1, shown.total)} value={shown.done + shown.failed} aria-label="Progress" />
      {shown.message !== "" && <p className="muted">{shown.message}</p>}
      {!open(shown.state) && <TaskItems id={task.task_id} />}
      <p>
        <Link href="/tasks">All tasks</Link>. It continues when this is closed.
      </p>
    </div>
  );
}

export function TaskItems({ id }: { id: string }) {
  const asked = api.useQuery("get", "/api/v1/tasks/{task_id}/items", { params: { path: { task_id: id } } });
  if (asked.data === undefined) return null;
  return (
    <Table
      label="Items of the task"
      rows={asked.data.items}
      rowKey={({ position }) => String(position)}
      columns={[
        { head: "Item", cell: ({ item }) => itemName(item) },
        { head: "State", cell: ({ state }) => <StatePill state={state} /> },
        { head: "Message", cell: ({ message }) => message },
      ]}
    />
  );
}

