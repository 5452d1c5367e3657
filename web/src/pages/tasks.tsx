// Long work: what is under way, and what has become of the rest.
import { useState } from "react";
import { api, refresh } from "../api/client";
import { useFeed } from "../api/feed";
import type { Task } from "../api/schema";
import { clusterName } from "../logic/flows";
import { clock, count, plain } from "../logic/format";
import { Dialog } from "../ui/dialog";
import { PageHead } from "../ui/page-head";
import { StatePill } from "../ui/pill";
import { Answer, Empty } from "../ui/states";
import { Table } from "../ui/table";
import { TaskItems, TaskProgress } from "./task-progress";

const OFTEN = { refetchInterval: 3_000 } as const;

export default function Tasks() {
  const [opened, setOpened] = useState<Task | null>(null);
  const asked = api.useQuery("get", "/api/v1/tasks", {}, OFTEN);
  return (
    <>
      <PageHead crumbs={[["/", "Map"]]} title="Tasks" />
      <section className="panel">
        <Answer of={asked}>{({ tasks }) => <List tasks={tasks} onOpen={setOpened} />}</Answer>
      </section>
      {opened !== null && (
        <Dialog title={`Task: ${plain(opened.kind)}`} onClose={() => setOpened(null)}>
          {opened.state === "OPEN" ? <TaskProgress task={opened} /> : <TaskItems id={opened.task_id} />}
        </Dialog>
      )}
    </>
  );
}

function List({ tasks, onOpen }: { tasks: readonly Task[]; onOpen: (task: Task) => void }) {
  const { topology } = useFeed();
  if (tasks.length === 0) {
    return (
      <Empty title="No task yet">
        <p>Promoting and failing over mirror topics, moving partitions and creating many topics are tasks.</p>
      </Empty>
    );
  }
  return (
    <Table
      label="Tasks"
      rows={tasks}
      rowKey={({ task_id }) => task_id}
      columns={[
        { head: "Task", cell: (task) => <button type="button" className="plain" onClick={() => onOpen(task)}>{task.kind}</button> },
        { head: "State", cell: ({ state }) => <StatePill state={state} /> },
        { head: "Progress", cell: ({ done, failed, total }) => <progress max={Math.max(1, total)} value={done + failed} aria-label={`${done} of ${total}`} /> },
        { head: "Done", cell: ({ done, total }) => `${count(done)} of ${count(total)}`, numeric: true },
        { head: "Cluster", cell: ({ cluster_id }) => clusterName(cluster_id, topology?.clusters ?? []) },
        { head: "Begun", cell: ({ created_ms }) => clock(created_ms) },
        { head: "Message", cell: ({ message }) => message },
        { head: "", cell: (task) => task.state === "OPEN" && <Cancel task={task} /> },
      ]}
    />
  );
}

function Cancel({ task }: { task: Task }) {
  const cancel = api.useMutation("post", "/api/v1/tasks/{task_id}:cancel", { onSettled: () => void refresh() });
  return (
    <button type="button" disabled={cancel.isPending} onClick={() => cancel.mutate({ params: { path: { task_id: task.task_id } } })}>
      Cancel
    </button>
  );
}
