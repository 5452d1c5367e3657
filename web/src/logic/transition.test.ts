import { expect, test } from "vitest";
import type { LagSeries, Mirror } from "../api/schema";
import { isSignedOut, problemText } from "./problem";
import { columns, latest } from "./series";
import { missing, lagText, lossNow, typedName } from "./transition";

const mirror = (...lags: (number | null)[]): Mirror =>
  ({ mirror_status: "ACTIVE", mirror_lags: lags.map((lag, partition) => ({ partition, lag, last_source_fetch_offset: 0 })) }) as Mirror;
const series = (topic: string, ...points: [number, number | null, number][]): LagSeries =>
  ({ topic, points: points.map(([at_ms, lag_ms, lag_records]) => ({ at_ms, lag_ms, lag_records, copies: 1 })) }) as LagSeries;

test("the lag of a mirror topic is known when all of its leaders report it", () => {
  expect(missing(mirror(2, 3))).toBe(5);
  expect(missing(mirror(2, null))).toBeNull();
  expect(missing(mirror())).toBeNull();
});

test("an unknown lag is said, and a stale one has its age", () => {
  expect(lagText(mirror(2, null))).toBe("unknown");
  const stale = { mirror_lags: [{ partition: 0, lag: 2, last_source_fetch_offset: 0, source_age_ms: 40_000 }] };
  expect(lagText(stale)).toBe("2 records, as of 40 s ago");
});

test("what would be lost now is said with its age", () => {
  expect(lossNow([mirror(0)], null, 0)).toBe("No record is missing.");
  expect(lossNow([mirror(2, 1)], { ms: 1_500, records: 3, atMs: 1_000 }, 2_000)).toBe("3 records missing, 1.5 s behind the source.");
  expect(lossNow([mirror(1), mirror(null)], { ms: 20, records: 1, atMs: 0 }, 40_000)).toBe(
    "1 record missing, 20 ms behind the source, as it was 40 s ago. Of 1 topic it is unknown.",
  );
});

test("a source that is not copied now may have more than it last reported", () => {
  expect(lossNow([{ ...mirror(0), mirror_status: "SOURCE_UNAVAILABLE" }], null, 0)).toBe(
    "No record is missing. The source may have more than it last reported (source unavailable).",
  );
});

test("a failover is confirmed with the topic's name, or the link's for several", () => {
  expect(typedName(["orders"], "west")).toBe("orders");
  expect(typedName(["orders", "payments"], "west")).toBe("west");
});

test("series of different times share one axis, and what is not known is a gap", () => {
  const data = columns([series("a", [1_000, 5, 1], [3_000, null, 0]), series("b", [2_000, 7, 0])], "ms", ({ topic }) => topic);
  expect(data.seconds).toEqual([1, 2, 3]);
  expect(data.lines).toEqual([{ label: "a", values: [5, null, null] }, { label: "b", values: [null, 7, null] }]);
});

test("the latest lag is the worst time and the sum of the records", () => {
  expect(latest([series("a", [1, 9, 9], [2, 5, 1]), series("b", [3, 4, 0])])).toEqual({ ms: 5, records: 1, atMs: 3 });
  expect(latest([])).toBeNull();
});

test("errors are what the API says", () => {
  expect(problemText({ error_code: 40403, message: "This is not there." })).toBe("This is not there.");
  expect(problemText(new TypeError("fetch failed"))).toContain("unreachable");
  expect([isSignedOut({ error_code: 401, message: "" }), isSignedOut({ error_code: 40401, message: "" })]).toEqual([true, false]);
});
