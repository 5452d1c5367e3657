import { expect, test } from "vitest";
import { broker, cluster, flow, topology } from "./fixtures";
import { merged, NOTHING, readNews } from "./merge";

const task = (task_id: string, done: number) => ({ task_id, kind: "k", state: "OPEN", message: "", total: 2, done, failed: 0 });

test("a topology replaces what was known; lag replaces its flows and its time alone", () => {
  const first = topology([cluster("a", [broker(1, "west")])], [flow("w", "e")]);
  const known = merged(NOTHING, { kind: "topology", data: first });
  expect(known.topology).toBe(first);
  const later = merged(known, { kind: "lag", data: { at_ms: 9, flows: [flow("w", "e", { lag_ms: 70 })] } });
  expect(later.topology).toEqual({ ...first, at_ms: 9, flows: [flow("w", "e", { lag_ms: 70 })] });
});

test("lag before the first topology is of nothing", () => {
  expect(merged(NOTHING, { kind: "lag", data: { at_ms: 1, flows: [] } })).toBe(NOTHING);
});

test("a task is as its last event says, and a bounded number is kept", () => {
  let known = merged(merged(NOTHING, { kind: "task", data: task("a", 0) }), { kind: "task", data: task("a", 1) });
  expect(known.tasks).toEqual({ a: task("a", 1) });
  for (let index = 0; index < 150; index += 1) known = merged(known, { kind: "task", data: task(`t${index}`, 0) });
  expect(Object.keys(known.tasks)).toHaveLength(100);
  expect(known.tasks["t149"]).toBeDefined();
});

test("events are read as JSON, and unknown kinds are none", () => {
  expect(readNews("weather", "{}")).toBeNull();
  expect(readNews("task", JSON.stringify(task("a", 1)))).toEqual({ kind: "task", data: task("a", 1) });
});
