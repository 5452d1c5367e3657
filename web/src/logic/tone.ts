// Five tones for states; every colour of a state comes from here. What is unknown is quiet.
import type { Broker, Cluster, Flow } from "../api/schema";

export type Tone = "good" | "warn" | "bad" | "quiet" | "busy";

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
  ASSIGNING: "busy",
  RECONCILING: "busy",
  NOT_READY: "warn",
  BEHIND: "warn",
  PAUSED: "warn",
  LINK_PAUSED: "warn",
  SOURCE_UNAVAILABLE: "bad",
  UNAVAILABLE: "bad",
  FAILED: "bad",
  LINK_FAILED: "bad",
  UNREACHABLE: "bad",
  STALE: "bad",
};

export const stateTone = (state: string): Tone => STATES[state] ?? "quiet";

const ORDER: readonly Tone[] = ["quiet", "good", "busy", "warn", "bad"];

export const worst = (tones: readonly Tone[]): Tone =>
  tones.reduce<Tone>((sofar, tone) => (ORDER.indexOf(tone) > ORDER.indexOf(sofar) ? tone : sofar), "quiet");

/** Its information is stale, no broker could send or receive it, or the cluster that reports it is unreachable. */
export const flowIsLost = (flow: Flow, clusters: readonly Cluster[]): boolean =>
  flow.state === "STALE" ||
  clusters.some(({ cluster_id, state }) => state === "UNREACHABLE" && cluster_id === flow.target_cluster) ||
  isDeserted(flow.source_cluster, flow.source_region, clusters) ||
  isDeserted(flow.target_cluster, flow.target_region, clusters);

function isDeserted(id: string, region: string, clusters: readonly Cluster[]): boolean {
  const brokers = clusters.find(({ cluster_id }) => cluster_id === id)?.brokers.filter((broker) => broker.region === region) ?? [];
  return brokers.length > 0 && brokers.every(isGone);
}

/** Fenced or unreachable. */
export const isGone = ({ fenced, unreachable_since_ms }: Broker): boolean => fenced || unreachable_since_ms !== null;

export const flowMoves = (flow: Flow, clusters: readonly Cluster[]): boolean =>
  (flow.state === "ACTIVE" || flow.state === "BEHIND") && !flowIsLost(flow, clusters);

export function flowTone(flow: Flow, clusters: readonly Cluster[]): Tone {
  if (flowIsLost(flow, clusters)) return "bad";
  const tone = stateTone(flow.state);
  return flow.lag_ms === null && tone === "good" ? "quiet" : tone;
}
