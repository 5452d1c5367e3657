// Lag series as a chart wants them: one row of times, and for each series a value or a gap at every time.
import type { LagSeries } from "../api/schema";

export interface Columns {
  readonly seconds: readonly number[];
  readonly lines: readonly { readonly label: string; readonly values: readonly (number | null)[] }[];
}

export type Unit = "ms" | "records";

export function columns(series: readonly LagSeries[], unit: Unit, label: (series: LagSeries) => string): Columns {
  const times = [...new Set(series.flatMap(({ points }) => points.map(({ at_ms }) => at_ms)))].sort((one, other) => one - other);
  const lines = series.map((one) => {
    const known = new Map(one.points.map((point) => [point.at_ms, unit === "ms" ? point.lag_ms : point.lag_records]));
    return { label: label(one), values: times.map((at) => positive(known.get(at))) };
  });
  return { seconds: times.map((at) => at / 1_000), lines };
}

/** A lag of -1 is not known: a gap, and no point at all. */
const positive = (value: number | undefined): number | null => (value === undefined || value < 0 ? null : value);

export interface Latest {
  readonly ms: number;
  readonly records: number;
  readonly atMs: number;
}

/** What was sampled last over all series: the worst time, and the sum of the records. */
export function latest(series: readonly LagSeries[]): Latest | null {
  const points = series.flatMap(({ points }) => points.slice(-1));
  if (points.length === 0) return null;
  return {
    ms: Math.max(...points.map(({ lag_ms }) => lag_ms)),
    records: points.reduce((sum, { lag_records }) => sum + Math.max(0, lag_records), 0),
    atMs: Math.max(...points.map(({ at_ms }) => at_ms)),
  };
}
