import { expect, test } from "vitest";
import { broker, replica } from "./fixtures";
import { readLines } from "./lines";
import { isInternal, topicRows } from "./matrix";
import { placementOf, placementSentence } from "./placement";

const BROKERS = [broker(1, "west"), broker(2, "east"), broker(3, "far")];

test("topics by region: those without a leader first, then the under-replicated; observers are never missed", () => {
  const rows = topicRows(
    [
      replica("fine", 0, 1, { is_leader: true }),
      replica("fine", 0, 3, { is_observer: true, is_in_isr: false }),
      replica("behind", 0, 1, { is_leader: true }),
      replica("behind", 0, 2, { is_in_isr: false }),
      replica("dead", 0, 1),
    ],
    BROKERS,
  );
  expect(rows.map(({ topic, leaderless, underReplicated }) => [topic, leaderless, underReplicated])).toEqual([
    ["dead", 1, 0], ["behind", 0, 1], ["fine", 0, 0],
  ]);
  expect(rows[2]!.shares.get("far")).toEqual({ leaders: 0, inSync: 0, observers: 1, behind: 0 });
  expect(rows[1]!.shares.get("east")).toEqual({ leaders: 0, inSync: 0, observers: 0, behind: 1 });
  expect([isInternal("__isthmus_lag"), isInternal("orders")]).toEqual([true, false]);
});

test("a placement is Confluent's JSON; without observers it promotes none", () => {
  const wishes = [{ region: "west", sync: 2, observers: 0 }, { region: "far", sync: 0, observers: 1 }];
  expect(JSON.parse(placementOf(wishes, "under-min-isr"))).toEqual({
    version: 2,
    replicas: [{ count: 2, constraints: { region: "west" } }],
    observers: [{ count: 1, constraints: { region: "far" } }],
    observerPromotionPolicy: "under-min-isr",
  });
  expect(JSON.parse(placementOf(wishes.slice(0, 1), "under-min-isr"))).toEqual({
    version: 2, replicas: [{ count: 2, constraints: { region: "west" } }],
  });
});

test("what a placement comes to is said", () => {
  const wishes = [{ region: "west", sync: 2, observers: 0 }, { region: "east", sync: 1, observers: 1 }];
  expect(placementSentence(wishes, 2)).toBe(
    "3 synchronous replicas in 2 regions. Writes continue while 1 of 3 synchronous replicas is down. 1 observer copies without slowing down writes.",
  );
  expect(placementSentence(wishes, 4)).toContain("Nothing can be written: min.insync.replicas is 4");
  expect(placementSentence([], 1)).toBe("Give at least one region a synchronous replica.");
});

test("configs are read line by line, and the first invalid line is reported", () => {
  expect(readLines("# why\n a=1 \n\nb=x=y")).toEqual({ configs: [{ name: "a", value: "1" }, { name: "b", value: "x=y" }], wrong: null });
  expect(readLines("a=1\nnonsense").wrong).toBe("nonsense");
});
