import { expect, test } from "vitest";
import { hasItsTarget, tasks } from "./tasks";

const NONE = { active: [], standby: [], warmup: [] };
const TWO = [
  { subtopology_id: "0", partition_ids: [0, 1] },
  { subtopology_id: "1", partition_ids: [2] },
];

test("tasks are written by subtopology", () => {
  expect(tasks(TWO)).toBe("0:[0,1] 1:[2]");
  expect(tasks([])).toBe("");
});

test("a member has its target when all kinds of tasks are the same", () => {
  expect(hasItsTarget({ ...NONE, active: TWO }, { ...NONE, active: TWO })).toBe(true);
  expect(hasItsTarget({ ...NONE, active: TWO }, { ...NONE, standby: TWO })).toBe(false);
  expect(hasItsTarget(NONE, { ...NONE, warmup: TWO })).toBe(false);
});
