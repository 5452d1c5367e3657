// What is said of a flow: in a few characters on its arc, in a sentence elsewhere.
import type { Cluster, Flow, Topology } from "../api/schema";
import { compact, duration, plain, records } from "./format";
import { endsOf } from "./regions";
import { flowIsLost } from "./tone";

const KINDS: Readonly<Record<string, string>> = { link: "link", mirror: "mirror", observer: "observers", follower: "followers" };

/** How long nobody has heard of it, by the control plane's clock. */
const silence = ({ heard_ms }: Flow, atMs: number): string => (heard_ms === null ? "" : ` for ${duration(atMs - heard_ms)}`);

export function flowLabel(flow: Flow, { clusters, at_ms }: Topology): string {
  if (flowIsLost(flow, clusters)) return `no word${silence(flow, at_ms)}`;
  if (flow.state !== "ACTIVE" && flow.state !== "BEHIND") return plain(flow.state);
  if (flow.copies === 0) return "copies nothing";
  if (flow.lag_ms < 0 && flow.lag_records < 0) return "starting";
  return flow.lag_records > 0 ? `${duration(flow.lag_ms)}, ${compact(flow.lag_records)} rec` : duration(flow.lag_ms);
}

export const flowName = (flow: Flow, clusters: readonly Cluster[]): string =>
  flow.name || `${KINDS[flow.kind] ?? flow.kind} of ${clusterName(flow.source_cluster, clusters)}`;

export const clusterName = (id: string, clusters: readonly Cluster[]): string =>
  clusters.find(({ cluster_id }) => cluster_id === id)?.name ?? id;

export function flowCaption(flow: Flow, topology: Topology): string {
  const { clusters } = topology;
  const [source, target] = endsOf(flow);
  if (flowIsLost(flow, clusters)) return `${flow.kind} ${flowName(flow, clusters)}, ${source} to ${target}: ${flowLabel(flow, topology)}`;
  const lag = `${duration(flow.lag_ms)} and ${records(flow.lag_records)} behind`;
  return `${flow.kind} ${flowName(flow, clusters)}, ${source} to ${target}: ${plain(flow.state)}, ${lag}`;
}
