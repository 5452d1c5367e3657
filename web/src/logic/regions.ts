// What each region holds, and whether it can be reached.
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

/** Brokers without a rack have no region; each cluster's are shown at a place of their own. */
export interface RegionView {
  readonly key: string;
  readonly title: string;
  readonly latitude: number | null;
  readonly longitude: number | null;
  readonly residents: readonly Resident[];
  readonly state: "reachable" | "impaired" | "cut off";
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
  const away = residents.length > 0 && residents.every(isAway);
  return {
    key,
    title: region?.title ?? (topology.clusters.find(({ cluster_id }) => `@${cluster_id}` === key)?.name || key),
    latitude: region?.latitude ?? null,
    longitude: region?.longitude ?? null,
    residents,
    state: away ? "cut off" : trouble.length > 0 ? "impaired" : "reachable",
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

/** A cluster of several regions that is away as a whole says nothing of one of them, but its brokers may. */
function isAway({ cluster, brokers }: Resident): boolean {
  if (cluster.state === "AWAY" && cluster.regions.length <= 1) return true;
  return brokers.length > 0 && brokers.every(isGone);
}

function troubles({ cluster, brokers }: Resident, atMs: number): readonly string[] {
  if (cluster.state === "AWAY") return [`${cluster.name} does not answer${since(cluster.away_since_ms, atMs)}`];
  const away = brokers.filter(({ away_since_ms }) => away_since_ms !== null);
  const fenced = brokers.filter((broker) => broker.fenced);
  const part = (some: readonly Broker[]): string => `${cluster.name}: ${some.length} of ${counted(brokers.length, "broker")}`;
  // Of several the first that went: that is how long something has been wrong.
  const first = Math.min(...away.map(({ away_since_ms }) => away_since_ms ?? atMs));
  return [
    ...(away.length === 0 ? [] : [`${part(away)} ${away.length === 1 ? "does" : "do"} not answer${since(first, atMs)}`]),
    ...(fenced.length === 0 ? [] : [`${part(fenced)} fenced`]),
  ];
}

const since = (ms: number | null, atMs: number): string => (ms === null ? "" : ` since ${timeOfDay(ms)} (${duration(atMs - ms)})`);

export const regionTone = (view: RegionView): Tone =>
  view.state === "reachable" ? "good" : view.state === "impaired" ? "warn" : "bad";
