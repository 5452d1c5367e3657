// Where regions are on the map: at their coordinates where they have some, else in a row that is free for them.
import { type GeoProjection, geoNaturalEarth1 } from "d3-geo";
import type { RegionView } from "./regions";

export interface Size {
  readonly width: number;
  readonly height: number;
}

export interface Place {
  readonly x: number;
  readonly y: number;
  /** Whether it was found by the console, because nobody has said where the region is. */
  readonly automatic: boolean;
}

type Placed = RegionView & { readonly latitude: number; readonly longitude: number };

/** Half of the least part of the world that is shown: a single region is not shown as its streets. */
const LEAST_DEGREES = 14;

const isPlaced = (region: RegionView): region is Placed => region.latitude !== null && region.longitude !== null;

/** The world turned and fitted so that all regions with coordinates are seen, with room for arcs above and cards below. */
export function projectionOf(regions: readonly RegionView[], size: Size): GeoProjection {
  const placed = regions.filter(isPlaced);
  const projection = geoNaturalEarth1();
  if (placed.length === 0) return projection.fitSize([size.width, size.height], { type: "Sphere" });
  const around = placed.flatMap(({ longitude, latitude }) => [
    [longitude - LEAST_DEGREES, clampLatitude(latitude - LEAST_DEGREES / 2)],
    [longitude + LEAST_DEGREES, clampLatitude(latitude + LEAST_DEGREES / 2)],
  ]);
  const sides = Math.min(60, size.width * 0.08);
  const extent: [[number, number], [number, number]] = [
    [sides, size.height * 0.22],
    [size.width - sides, size.height * 0.7],
  ];
  return projection
    .rotate([-meanLongitude(placed.map(({ longitude }) => longitude)), 0])
    .fitExtent(extent, { type: "MultiPoint", coordinates: around });
}

const clampLatitude = (latitude: number): number => Math.max(-85, Math.min(85, latitude));

/** The mean on the circle: regions on both sides of the date line lie side by side. */
export function meanLongitude(longitudes: readonly number[]): number {
  const radians = longitudes.map((longitude) => (longitude * Math.PI) / 180);
  const sum = (part: (angle: number) => number): number => radians.reduce((total, angle) => total + part(angle), 0);
  return (Math.atan2(sum(Math.sin), sum(Math.cos)) * 180) / Math.PI;
}

export function places(regions: readonly RegionView[], projection: GeoProjection, size: Size): ReadonlyMap<string, Place> {
  const found = new Map<string, Place>();
  for (const region of regions.filter(isPlaced)) {
    const point = projection([region.longitude, region.latitude]);
    if (point !== null) found.set(region.key, { x: point[0], y: point[1], automatic: false });
  }
  const others = regions.filter(({ key }) => !found.has(key));
  const y = found.size > 0 ? size.height * 0.82 : size.height * 0.5;
  others.forEach(({ key }, index) => {
    found.set(key, { x: (size.width * (index + 0.5)) / others.length, y, automatic: true });
  });
  return found;
}

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** Moves boxes apart, each as little as can be, and keeps them within the map. */
export function apart(boxes: readonly Box[], size: Size, gap: number): readonly Box[] {
  const moved = boxes.map((box) => ({ ...box }));
  for (let round = 0; round < 40; round += 1) {
    let still = true;
    for (const [index, one] of moved.entries()) {
      for (const other of moved.slice(index + 1)) still = !push(one, other, gap) && still;
      one.x = Math.max(0, Math.min(size.width - one.width, one.x));
      one.y = Math.max(0, Math.min(size.height - one.height, one.y));
    }
    if (still) break;
  }
  return moved;
}

function push(one: { -readonly [K in keyof Box]: number }, other: { -readonly [K in keyof Box]: number }, gap: number): boolean {
  const across = Math.min(one.x + one.width, other.x + other.width) + gap - Math.max(one.x, other.x);
  const down = Math.min(one.y + one.height, other.y + other.height) + gap - Math.max(one.y, other.y);
  if (across <= 0.5 || down <= 0.5) return false;
  const axis = across < down ? "x" : "y";
  const half = Math.min(across, down) / 2;
  const first = one[axis] <= other[axis] ? one : other;
  const second = first === one ? other : one;
  first[axis] -= half;
  second[axis] += half;
  return true;
}
