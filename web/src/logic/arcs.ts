// The way of each flow over the map: arcs that bow upwards, those of the same pair of regions one above the other.
import type { Flow } from "../api/schema";
import type { Place } from "./places";
import { endsOf } from "./regions";

export interface Arc {
  readonly flow: Flow;
  readonly path: string;
  /** Where its label stands. */
  readonly x: number;
  readonly y: number;
}

type Point = Pick<Place, "x" | "y">;

const LABEL_AT = 0.4;
const BOW = 0.2;
const BOW_STEP = 0.12;
const LOOP = 46;
const LABEL_HEIGHT = 24;
const LABEL_WIDTH = 108;
const TOP = 16;

export function arcs(flows: readonly Flow[], places: ReadonlyMap<string, Place>): readonly Arc[] {
  const drawn = new Map<string, number>();
  const found: Arc[] = [];
  for (const flow of flows) {
    const [source, target] = endsOf(flow);
    const from = places.get(source);
    const to = places.get(target);
    if (from === undefined || to === undefined) continue;
    const pair = [source, target].sort().join(" ");
    const rank = drawn.get(pair) ?? 0;
    drawn.set(pair, rank + 1);
    found.push(source === target ? loop(flow, from, rank) : bow(flow, from, to, rank));
  }
  return spread(found);
}

function bow(flow: Flow, from: Place, to: Place, rank: number): Arc {
  const distance = Math.hypot(to.x - from.x, to.y - from.y);
  const rise = Math.max(40, distance * (BOW + BOW_STEP * rank));
  const middle = { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 };
  // The curve comes half as far up as its control point, and stays on the map.
  const control = { x: middle.x, y: Math.max(2 * TOP - middle.y, middle.y - rise * 2) };
  return {
    flow,
    path: `M${at(from)} Q${at(control)} ${at(to)}`,
    ...along(from, control, to, LABEL_AT),
  };
}

/** A point of the curve: where flows of several sources end together, their labels are still apart. */
function along(from: Point, control: Point, to: Point, part: number): Point {
  const rest = 1 - part;
  const mix = (axis: "x" | "y"): number => rest * rest * from[axis] + 2 * rest * part * control[axis] + part * part * to[axis];
  return { x: mix("x"), y: Math.max(TOP, mix("y")) };
}

/** A flow within a region. */
function loop(flow: Flow, place: Place, rank: number): Arc {
  const height = LOOP * (1 + rank * 0.6);
  const left = `${round(place.x - height)} ${round(place.y - height * 1.4)}`;
  const right = `${round(place.x + height)} ${round(place.y - height * 1.4)}`;
  return { flow, path: `M${at(place)} C${left} ${right} ${at(place)}`, x: place.x, y: Math.max(TOP, place.y - height * 1.05) };
}

const round = (value: number): number => Math.round(value * 10) / 10;
const at = ({ x, y }: Point): string => `${round(x)} ${round(y)}`;

/** Labels that would lie on one another are moved down, the uppermost first. */
function spread(found: readonly Arc[]): readonly Arc[] {
  const settled: Arc[] = [];
  for (const arc of [...found].sort((one, other) => one.y - other.y)) {
    let y = arc.y;
    for (const other of settled) {
      if (Math.abs(other.x - arc.x) < LABEL_WIDTH && Math.abs(other.y - y) < LABEL_HEIGHT) y = other.y + LABEL_HEIGHT;
    }
    settled.push({ ...arc, y });
  }
  return settled;
}
