// What each region holds, and whether it is reachable.
import type { Broker, Cluster, Flow, Topology } from "../api/schema";
import { counted, duration, timeOfDay } from "./format";
import { isGone, type Tone } from "./tone";

/** A cluster's part in a region. */
export interface Resident {
  readonly cluster: Cluster;
  readonly brokers: readonly Broker[];
  readonly leaders: number;
  readonly observers: number;
}

/** Brokers without a rack have no region; each cluster's are shown at their own location. */
export interface RegionView {
  readonly key: string;
  readonly title: string;
  readonly latitude: number | null;
  readonly longitude: number | null;
  readonly residents: readonly Resident[];
  readonly state: "reachable" | "impaired" | "unreachable";
  readonly trouble: readonly string[];
}

export const placeOf = (region: string, clusterId: string): string => region || `@${clusterId}`;

export const endsOf = (flow: Flow): readonly [string, string] => [
  placeOf(flow.source_region, flow.source_cluster),
  placeOf(flow.target_region, flow.target_cluster),
];

export function regionViews(topology: Topology): readonly RegionView[] {
  const residents = new Map<string, Resident[]>();
  for (const cluster of topology.clusters) {
    for (const name of regionsOf(cluster)) {
      const key = placeOf(name, cluster.cluster_id);
      residents.set(key, [...(residents.get(key) ?? []), resident(cluster, name)]);
    }
  }
  const known = new Map(topology.regions.map((region) => [region.name, region]));
  const keys = new Set([...known.keys(), ...residents.keys(), ...topology.flows.flatMap(endsOf)]);
  return [...keys].sort().map((key) => view(key, known.get(key), residents.get(key) ?? [], topology));
}

function view(
  key: string,
  region: Topology["regions"][number] | undefined,
  residents: readonly Resident[],
  topology: Topology,
): RegionView {
  const trouble = residents.flatMap((resident) => troubles(resident, topology.at_ms));
  const unreachable = residents.length > 0 && residents.every(isUnreachable);
  return {
    key,
    title: region?.title ?? (topology.clusters.find(({ cluster_id }) => `@${cluster_id}` === key)?.name || key),
    latitude: region?.latitude ?? null,
    longitude: region?.longitude ?? null,
    residents,
    state: unreachable ? "unreachable" : trouble.length > 0 ? "impaired" : "reachable",
    trouble,
  };
}

function regionsOf(cluster: Cluster): readonly string[] {
  return cluster.regions.length > 0 ? cluster.regions.map(({ region }) => region) : [""];
}

function resident(cluster: Cluster, region: string): Resident {
  const share = cluster.regions.find((one) => one.region === region);
  return {
    cluster,
    brokers: cluster.brokers.filter((broker) => broker.region === region),
    leaders: share?.leaders ?? 0,
    observers: share?.observers ?? 0,
  };
}

/** An unreachable cluster of several regions does not prove a region unreachable; its brokers there may. */
function isUnreachable({ cluster, brokers }: Resident): boolean {
  if (cluster.state === "UNREACHABLE" && cluster.regions.length <= 1) return true;
  return brokers.length > 0 && brokers.every(isGone);
}

function troubles({ cluster, brokers }: Resident, atMs: number): readonly string[] {
  if (cluster.state === "UNREACHABLE") return [`${cluster.name} unreachable${since(cluster.unreachable_since_ms, atMs)}`];
  const unreachable = brokers.filter(({ unreachable_since_ms }) => unreachable_since_ms !== null);
  const fenced = brokers.filter((broker) => broker.fenced);
  const part = (some: readonly Broker[]): string => `${cluster.name}: ${some.length} of ${counted(brokers.length, "broker")}`;
  // The first that became unreachable: something has been wrong since then.
  const first = Math.min(...unreachable.map(({ unreachable_since_ms }) => unreachable_since_ms ?? atMs));
  return [
    ...(unreachable.length === 0 ? [] : [`${part(unreachable)} unreachable${since(first, atMs)}`]),
    ...(fenced.length === 0 ? [] : [`${part(fenced)} fenced`]),
  ];
}

const since = (ms: number | null, atMs: number): string => (ms === null ? "" : ` since ${timeOfDay(ms)} (${duration(atMs - ms)})`);

export const regionTone = (view: RegionView): Tone =>
  view.state === "reachable" ? "good" : view.state === "impaired" ? "warn" : "bad";
