// Five tones say how something fares; every colour of a state comes from here.
import type { Cluster, Flow } from "../api/schema";

export type Tone = "good" | "warn" | "bad" | "quiet" | "busy";

const WARN_MS = 1_000;
const BAD_MS = 10_000;

const STATES: Readonly<Record<string, Tone>> = {
  ACTIVE: "good",
  UP: "good",
  DONE: "good",
  Stable: "good",
  STABLE: "good",
  RUNNING: "busy",
  OPEN: "busy",
  PENDING: "busy",
  PENDING_STOPPED: "busy",
  BEHIND: "warn",
  PAUSED: "warn",
  LINK_PAUSED: "warn",
  SOURCE_UNAVAILABLE: "bad",
  UNAVAILABLE: "bad",
  FAILED: "bad",
  LINK_FAILED: "bad",
  AWAY: "bad",
};

export const stateTone = (state: string): Tone => STATES[state] ?? "quiet";

export function lagTone(lagMs: number): Tone {
  if (lagMs < 0) return "quiet";
  if (lagMs < WARN_MS) return "good";
  return lagMs < BAD_MS ? "warn" : "bad";
}

const ORDER: readonly Tone[] = ["quiet", "good", "busy", "warn", "bad"];

export const worst = (tones: readonly Tone[]): Tone =>
  tones.reduce<Tone>((sofar, tone) => (ORDER.indexOf(tone) > ORDER.indexOf(sofar) ? tone : sofar), "quiet");

/** A flow whose ends do not answer is not what it last said of itself. */
export function flowIsLost(flow: Flow, clusters: readonly Cluster[]): boolean {
  return clusters.some(
    ({ cluster_id, state }) => state === "AWAY" && [flow.source_cluster, flow.target_cluster].includes(cluster_id),
  );
}

export function flowTone(flow: Flow, clusters: readonly Cluster[]): Tone {
  if (flowIsLost(flow, clusters)) return "bad";
  if (flow.state === "SILENT") return "quiet";
  const state = stateTone(flow.state);
  return state === "good" ? lagTone(flow.lag_ms) : state;
}
