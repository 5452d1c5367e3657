import { expect, test } from "vitest";
import { arcs } from "./arcs";
import { broker, cluster, flow, topology } from "./fixtures";
import { apart, meanLongitude, places, projectionOf } from "./places";
import { regionViews } from "./regions";

const SIZE = { width: 1_000, height: 500 };
const at = (name: string, latitude: number, longitude: number) => ({ name, title: name, latitude, longitude });
const views = (regions: ReturnType<typeof at>[], names: string[]) =>
  regionViews(topology([cluster("a", names.map((name, index) => broker(index, name)))], [], regions));

test("regions with coordinates lie as on the globe, within the map", () => {
  const regions = views([at("ireland", 53, -6), at("virginia", 39, -77), at("stockholm", 59, 18)], ["virginia"]);
  const found = places(regions, projectionOf(regions, SIZE), SIZE);
  const [ireland, virginia, stockholm] = ["ireland", "virginia", "stockholm"].map((name) => found.get(name)!);
  expect(virginia!.x).toBeLessThan(ireland!.x);
  expect(ireland!.x).toBeLessThan(stockholm!.x);
  expect(stockholm!.y).toBeLessThan(virginia!.y);
  for (const place of found.values()) {
    expect(place.x).toBeGreaterThan(0);
    expect(place.x).toBeLessThan(SIZE.width);
    expect(place.automatic).toBe(false);
  }
});

test("regions without coordinates get places of their own, side by side", () => {
  const regions = views([], ["one", "two"]);
  const found = places(regions, projectionOf(regions, SIZE), SIZE);
  expect([...found]).toEqual([["one", { x: 250, y: 250, automatic: true }], ["two", { x: 750, y: 250, automatic: true }]]);
});

test("regions on both sides of the date line lie side by side", () => {
  expect(Math.abs(meanLongitude([170, -170]))).toBeCloseTo(180);
  const regions = views([at("fiji", -18, 178), at("samoa", -14, -172)], ["fiji"]);
  const found = places(regions, projectionOf(regions, SIZE), SIZE);
  expect(found.get("fiji")!.x).toBeLessThan(found.get("samoa")!.x);
});

test("boxes are moved apart and stay on the map", () => {
  const box = { x: 10, y: 10, width: 100, height: 50 };
  const [one, other] = apart([box, { ...box, y: 30 }], SIZE, 10);
  expect(other!.y - one!.y).toBeGreaterThanOrEqual(59);
  expect(one!.y).toBeGreaterThanOrEqual(0);
});

test("flows of one pair of regions lie one above the other, their labels apart, and a loop begins where it ends", () => {
  const spots = new Map([["w", { x: 100, y: 300, automatic: false }], ["e", { x: 500, y: 300, automatic: false }]]);
  const found = arcs([flow("w", "e", { name: "1" }), flow("e", "w", { name: "2" }), flow("w", "w", { name: "3" }), flow("w", "gone")], spots);
  expect(found.map(({ flow: one }) => one.name).sort()).toEqual(["1", "2", "3"]);
  const path = (name: string) => found.find(({ flow: one }) => one.name === name)!.path;
  expect(path("1")).toBe("M100 300 Q300 140 500 300");
  expect(path("2")).toBe("M500 300 Q300 44 100 300");
  expect(path("3").startsWith("M100 300 C") && path("3").endsWith(" 100 300")).toBe(true);
});
