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
    return { label: label(one), values: times.map((at) => known.get(at) ?? null) };
  });
  return { seconds: times.map((at) => at / 1_000), lines };
}

export interface Latest {
  readonly ms: number | null;
  readonly records: number;
  readonly atMs: number;
}

/** The newest samples of all series: the worst time, unknown if any is, and the sum of the records. */
export function latest(series: readonly LagSeries[]): Latest | null {
  const points = series.flatMap(({ points }) => points.slice(-1));
  if (points.length === 0) return null;
  return {
    ms: points.some(({ lag_ms }) => lag_ms === null) ? null : Math.max(...points.map(({ lag_ms }) => lag_ms ?? 0)),
    records: points.reduce((sum, { lag_records }) => sum + Math.max(0, lag_records), 0),
    atMs: Math.max(...points.map(({ at_ms }) => at_ms)),
  };
}
