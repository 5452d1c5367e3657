import { expect, test } from "vitest";
import { broker, cluster, flow, topology } from "./fixtures";
import { flowLabel } from "./flows";
import { timeOfDay } from "./format";
import { regionViews } from "./regions";
import { flowMoves, flowTone, worst } from "./tone";

const AT = 1_700_000_000_000;

const states = (clusters: ReturnType<typeof cluster>[]) => Object.fromEntries(regionViews(topology(clusters)).map(({ key, state }) => [key, state]));

test("a region is unreachable when all of its brokers are fenced, and impaired when some are", () => {
  const brokers = [broker(1, "west"), broker(2, "east", { fenced: true }), broker(3, "north"), broker(4, "north", { fenced: true })];
  expect(states([cluster("a", brokers)])).toEqual({ west: "reachable", east: "unreachable", north: "impaired" });
});

test("an unreachable cluster of one region makes its region unreachable, unless another cluster there is reachable", () => {
  const unreachable = cluster("b", [broker(1, "east")], { state: "UNREACHABLE" });
  expect(states([unreachable])).toEqual({ east: "unreachable" });
  expect(states([unreachable, cluster("a", [broker(1, "east")])])).toEqual({ east: "impaired" });
});

test("an unreachable stretched cluster only impairs its regions", () => {
  const unreachable = cluster("a", [broker(1, "west"), broker(2, "east")], { state: "UNREACHABLE" });
  expect(states([unreachable])).toEqual({ west: "impaired", east: "impaired" });
});

test("unreachable brokers are shown with the time since when, and a region of them is unreachable", () => {
  const gone = { unreachable_since_ms: AT - 6_000 };
  const brokers = [broker(1, "west"), broker(2, "east", gone), broker(3, "north"), broker(4, "north", { ...gone, fenced: true })];
  const document = { ...topology([cluster("a", brokers)]), at_ms: AT };
  const views = Object.fromEntries(regionViews(document).map((view) => [view.key, view]));
  expect([views["west"]?.state, views["east"]?.state, views["north"]?.state]).toEqual(["reachable", "unreachable", "impaired"]);
  expect(views["east"]?.trouble).toEqual([`a: 1 of 1 broker unreachable since ${timeOfDay(AT - 6_000)} (6.0 s)`]);
  expect(views["north"]?.trouble[1]).toBe("a: 1 of 2 brokers fenced");
  const unreachable = cluster("b", [broker(1, "south", gone), broker(2, "pole", gone)], { state: "UNREACHABLE", unreachable_since_ms: AT - 6_000 });
  expect(states([unreachable])).toEqual({ south: "unreachable", pole: "unreachable" });
});

test("brokers without a rack are shown at a place of their cluster's own", () => {
  const [view] = regionViews(topology([cluster("a", [broker(1, "")])]));
  expect([view?.key, view?.title, view?.latitude]).toEqual(["@a-id", "a", null]);
});

test("the colour of a flow is its state, unless an end is unreachable; an unknown lag is never green", () => {
  expect(flowTone(flow("west", "east"), [])).toBe("good");
  expect(flowTone(flow("west", "east", { lag_ms: null }), [])).toBe("quiet");
  expect(flowTone(flow("west", "east", { state: "UNKNOWN", lag_ms: null }), [])).toBe("quiet");
  expect(flowTone(flow("west", "east", { state: "BEHIND", lag_ms: 15_000 }), [])).toBe("warn");
  expect(flowTone(flow("west", "east", { state: "PAUSED" }), [])).toBe("warn");
  expect(flowTone(flow("west", "east", { state: "STALE" }), [])).toBe("bad");
  expect(flowTone(flow("west", "east"), [cluster("b", [], { state: "UNREACHABLE" })])).toBe("bad");
  const deserted = cluster("a", [broker(1, "east", { fenced: true })]);
  expect([flowTone(flow("east", "west"), [deserted]), flowMoves(flow("east", "west"), [deserted])]).toEqual(["bad", false]);
  const cut = cluster("a", [broker(1, "east", { unreachable_since_ms: 1 })]);
  expect([flowTone(flow("east", "west"), [cut]), flowMoves(flow("east", "west"), [cut])]).toEqual(["bad", false]);
  expect([flowMoves(flow("west", "east"), []), flowMoves(flow("west", "east", { state: "PAUSED" }), [])]).toEqual([true, false]);
  expect(worst(["good", "bad", "warn"])).toBe("bad");
  expect(worst([])).toBe("quiet");
});

test("a flow with stale or unknown lag has the age of the last update, and one without copies says so", () => {
  const label = (more: Parameters<typeof flow>[2]) => flowLabel(flow("west", "east", more), { ...topology([]), at_ms: AT });
  expect(label({ state: "STALE", last_update_ms: AT - 7_000 })).toBe("stale, last update 7.0 s ago");
  expect(label({ copies: 0, state: "UNKNOWN", lag_ms: null, lag_records: null, last_update_ms: null })).toBe("copies nothing");
  expect(label({ state: "UNKNOWN", lag_ms: null, lag_records: null, last_update_ms: AT - 12_000 })).toBe("lag unknown, last update 12 s ago");
});
