import { describe, expect, test } from "vitest";
import { ago, bytes, compact, counted, duration, plain, records, spaced } from "./format";

describe("numbers have their units", () => {
  test.each([
    [-1, "–"], [null, "–"], [0, "0 ms"], [999, "999 ms"], [1_000, "1.0 s"], [9_999, "10.0 s"], [10_000, "10 s"],
    [119_999, "119 s"], [120_000, "2 min"], [7_200_000, "2 h"], [172_800_000, "2 d"],
  ])("a length of %s ms", (ms, told) => expect(duration(ms)).toBe(told));
  test.each([[-1, "–"], [0, "0 records"], [1, "1 record"], [9_999, "9,999 records"], [12_345, "12.3K records"]])(
    "%s records", (value, told) => expect(records(value)).toBe(told));
  test.each([[0, "0 B"], [999, "999 B"], [1_000, "1.0 kB"], [123_456_789, "123 MB"], [5e18, "5000 PB"]])(
    "%s bytes", (value, told) => expect(bytes(value)).toBe(told));
});

test("words for people", () => {
  expect(counted(1, "broker")).toBe("1 broker");
  expect(counted(1_200, "broker")).toBe("1,200 brokers");
  expect(compact(10_000)).toBe("10K");
  expect(ago(1_000, 1_500)).toBe("just now");
  expect(ago(0, 12_000)).toBe("12 s ago");
  expect(plain("SOURCE_UNAVAILABLE")).toBe("source unavailable");
  expect(spaced("ConsumerOffsetSync")).toBe("consumer offset sync");
});
