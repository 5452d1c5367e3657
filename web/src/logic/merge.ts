// What is known, and how each event changes it. Pure: the feed calls it, the tests too.
import type { Topology } from "../api/schema";

/** How far a task is, as its events tell. */
export interface TaskNews {
  readonly task_id: string;
  readonly kind: string;
  readonly state: string;
  readonly message: string;
  readonly total: number;
  readonly done: number;
  readonly failed: number;
}

export interface Known {
  readonly topology: Topology | null;
  readonly tasks: Readonly<Record<string, TaskNews>>;
}

export type News =
  | { readonly kind: "topology"; readonly data: Topology }
  | { readonly kind: "lag"; readonly data: { readonly at_ms: number; readonly flows: Topology["flows"] } }
  | { readonly kind: "task"; readonly data: TaskNews };

export const NOTHING: Known = { topology: null, tasks: {} };
const TASKS_KEPT = 100;

export function merged(known: Known, news: News): Known {
  switch (news.kind) {
    case "topology":
      return { ...known, topology: news.data };
    case "lag":
      // A lag event has all flows; without a topology there is nothing to show them on.
      return known.topology === null ? known : { ...known, topology: { ...known.topology, ...news.data } };
    case "task":
      return { ...known, tasks: newest({ ...known.tasks, [news.data.task_id]: news.data }) };
  }
}

function newest(tasks: Readonly<Record<string, TaskNews>>): Readonly<Record<string, TaskNews>> {
  return Object.fromEntries(Object.entries(tasks).slice(-TASKS_KEPT));
}

/** An event of a kind that this console does not know is none. */
export function readNews(kind: string | undefined, data: string): News | null {
  if (kind !== "topology" && kind !== "lag" && kind !== "task") return null;
  return { kind, data: JSON.parse(data) } as News;
}
