// What is said of a flow: in a few characters on its arc, in a sentence elsewhere.
import type { Cluster, Flow } from "../api/schema";
import { compact, duration, plain, records } from "./format";
import { endsOf } from "./regions";
import { flowIsLost } from "./tone";

const KINDS: Readonly<Record<string, string>> = { link: "link", mirror: "mirror", observer: "observers", follower: "followers" };

export function flowLabel(flow: Flow, clusters: readonly Cluster[]): string {
  if (flowIsLost(flow, clusters)) return "no word";
  if (flow.state !== "ACTIVE" && flow.state !== "BEHIND") return plain(flow.state);
  if (flow.lag_ms < 0 && flow.lag_records < 0) return "starting";
  return flow.lag_records > 0 ? `${duration(flow.lag_ms)}, ${compact(flow.lag_records)} rec` : duration(flow.lag_ms);
}

export const flowName = (flow: Flow, clusters: readonly Cluster[]): string =>
  flow.name || `${KINDS[flow.kind] ?? flow.kind} of ${clusterName(flow.source_cluster, clusters)}`;

export const clusterName = (id: string, clusters: readonly Cluster[]): string =>
  clusters.find(({ cluster_id }) => cluster_id === id)?.name ?? id;

export function flowCaption(flow: Flow, clusters: readonly Cluster[]): string {
  const [source, target] = endsOf(flow);
  if (flowIsLost(flow, clusters)) return `${flow.kind} ${flowName(flow, clusters)}, ${source} to ${target}: no word of it`;
  const lag = `${duration(flow.lag_ms)} and ${records(flow.lag_records)} behind`;
  return `${flow.kind} ${flowName(flow, clusters)}, ${source} to ${target}: ${plain(flow.state)}, ${lag}`;
}
