// The tasks of members of streams groups, as Kafka's own command writes them.
import type { MemberTasks } from "../api/schema";

type Tasks = MemberTasks["active"];

/** "0:[0,1] 1:[0]"; empty without tasks. */
export const tasks = (of: Tasks): string => of.map(({ subtopology_id, partition_ids }) => `${subtopology_id}:[${partition_ids.join(",")}]`).join(" ");

/** Whether a member has the tasks that it is to have. */
export const hasItsTarget = (now: MemberTasks, target: MemberTasks): boolean =>
  (["active", "standby", "warmup"] as const).every((kind) => tasks(now[kind]) === tasks(target[kind]));
