// Small documents for the tests.
import type { Broker, Cluster, Flow, ReplicaStatus, Topology } from "../api/schema";

export const broker = (broker_id: number, region: string, more: Partial<Broker> = {}): Broker => ({
  broker_id, host: "h", port: 1, rack: `${region}/a`, region, fenced: false, unreachable_since_ms: null, leaders: 0, replicas: 0, in_sync: 0, observers: 0, ...more,
});

export const cluster = (name: string, brokers: Broker[], more: Partial<Cluster> = {}): Cluster => ({
  cluster_id: `${name}-id`, name, kind: "isthmus", state: "UP", message: "", updated_ms: 0, unreachable_since_ms: null, controller_id: 1, brokers,
  regions: [...new Set(brokers.map(({ region }) => region))].map((region) => ({ region, brokers: 1, leaders: 2, replicas: 2, in_sync: 2, observers: 1 })),
  topics: 0, partitions: 0, under_replicated: 0, leaderless: 0, partial: false, ...more,
});

export const flow = (source: string, target: string, more: Partial<Flow> = {}): Flow => ({
  flow_id: `${source}-${target}-${more.name ?? ""}`, kind: "link", name: "l", source_cluster: "a-id", target_cluster: "b-id",
  source_region: source, target_region: target, state: "ACTIVE", message: "", copies: 1, lag_ms: 0, lag_records: 0, last_update_ms: 0, ...more,
});

export const topology = (clusters: Cluster[], flows: Flow[] = [], regions: Topology["regions"] = []): Topology => ({
  at_ms: 1, regions, clusters, flows,
});

export const replica = (topic_name: string, partition_id: number, broker_id: number, more: Partial<ReplicaStatus> = {}): ReplicaStatus => ({
  kind: "KafkaReplicaStatus", metadata: { self: "", resource_name: null }, cluster_id: "a-id", topic_name, partition_id, broker_id,
  is_leader: false, is_observer: false, is_isr_eligible: true, is_in_isr: true, is_caught_up: true,
  log_start_offset: 0, log_end_offset: 0, last_caught_up_time_ms: 0, last_fetch_time_ms: 0, link_name: null, ...more,
});
