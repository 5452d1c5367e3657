// A flow in words: a few characters on its arc, a sentence elsewhere.
import type { Cluster, Flow, Topology } from "../api/schema";
import { ago, compact, lagDuration, lagRecords, plain } from "./format";
import { endsOf } from "./regions";
import { flowIsLost } from "./tone";

const KINDS: Readonly<Record<string, string>> = { link: "link", mirror: "mirror", observer: "observers", follower: "followers" };

/** The age of the newest information, by the control plane's clock. */
const age = ({ last_update_ms }: Flow, atMs: number): string => (last_update_ms === null ? "" : `, last update ${ago(last_update_ms, atMs)}`);

export function flowLabel(flow: Flow, { clusters, at_ms }: Topology): string {
  if (flowIsLost(flow, clusters)) return `stale${age(flow, at_ms)}`;
  if (flow.state !== "ACTIVE" && flow.state !== "BEHIND" && flow.state !== "UNKNOWN") return plain(flow.state);
  if (flow.copies === 0) return "copies nothing";
  if (flow.lag_ms === null && flow.lag_records === null) return `lag unknown${age(flow, at_ms)}`;
  const behind = flow.lag_records ?? 0;
  return behind > 0 ? `${lagDuration(flow.lag_ms)}, ${compact(behind)} rec` : lagDuration(flow.lag_ms);
}

export const flowName = (flow: Flow, clusters: readonly Cluster[]): string =>
  flow.name || `${KINDS[flow.kind] ?? flow.kind} of ${clusterName(flow.source_cluster, clusters)}`;

export const clusterName = (id: string, clusters: readonly Cluster[]): string =>
  clusters.find(({ cluster_id }) => cluster_id === id)?.name ?? id;

export function flowCaption(flow: Flow, topology: Topology): string {
  const { clusters } = topology;
  const [source, target] = endsOf(flow);
  if (flowIsLost(flow, clusters)) return `${flow.kind} ${flowName(flow, clusters)}, ${source} to ${target}: ${flowLabel(flow, topology)}`;
  const lag = flow.lag_ms === null && flow.lag_records === null ? flowLabel(flow, topology) : `${lagDuration(flow.lag_ms)} and ${lagRecords(flow.lag_records)} behind`;
  return `${flow.kind} ${flowName(flow, clusters)}, ${source} to ${target}: ${plain(flow.state)}, ${lag}`;
}
