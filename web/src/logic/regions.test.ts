import { expect, test } from "vitest";
import { broker, cluster, flow, topology } from "./fixtures";
import { regionViews } from "./regions";
import { flowMoves, flowTone, lagTone, worst } from "./tone";

const states = (clusters: ReturnType<typeof cluster>[]) => Object.fromEntries(regionViews(topology(clusters)).map(({ key, state }) => [key, state]));

test("a region is cut off when all of its brokers are fenced, and impaired when some are", () => {
  const brokers = [broker(1, "west"), broker(2, "east", { fenced: true }), broker(3, "north"), broker(4, "north", { fenced: true })];
  expect(states([cluster("a", brokers)])).toEqual({ west: "reachable", east: "cut off", north: "impaired" });
});

test("a cluster of one region that does not answer takes its region with it, unless another answers there", () => {
  const away = cluster("b", [broker(1, "east")], { state: "AWAY" });
  expect(states([away])).toEqual({ east: "cut off" });
  expect(states([away, cluster("a", [broker(1, "east")])])).toEqual({ east: "impaired" });
});

test("a stretched cluster that does not answer says nothing of one of its regions", () => {
  const away = cluster("a", [broker(1, "west"), broker(2, "east")], { state: "AWAY" });
  expect(states([away])).toEqual({ west: "impaired", east: "impaired" });
});

test("brokers without a rack are shown at a place of their cluster's own", () => {
  const [view] = regionViews(topology([cluster("a", [broker(1, "")])]));
  expect([view?.key, view?.title, view?.latitude]).toEqual(["@a-id", "a", null]);
});

test("the colour of a flow is its lag, unless its state or an end that is away is worse", () => {
  expect([-1, 0, 999, 1_000, 10_000].map(lagTone)).toEqual(["quiet", "good", "good", "warn", "bad"]);
  expect(flowTone(flow("west", "east", { lag_ms: 5_000 }), [])).toBe("warn");
  expect(flowTone(flow("west", "east", { state: "PAUSED" }), [])).toBe("warn");
  expect(flowTone(flow("west", "east", { state: "SILENT" }), [])).toBe("quiet");
  expect(flowTone(flow("west", "east"), [cluster("b", [], { state: "AWAY" })])).toBe("bad");
  const deserted = cluster("a", [broker(1, "east", { fenced: true })]);
  expect([flowTone(flow("east", "west"), [deserted]), flowMoves(flow("east", "west"), [deserted])]).toEqual(["bad", false]);
  expect([flowMoves(flow("west", "east"), []), flowMoves(flow("west", "east", { state: "PAUSED" }), [])]).toEqual([true, false]);
  expect(worst(["good", "bad", "warn"])).toBe("bad");
  expect(worst([])).toBe("quiet");
});
