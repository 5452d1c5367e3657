// What a topic's replicas come to.
import type { PartitionPlaces, ReplicaPlace, TopicReplicas } from "../api/schema";
import type { Tone } from "./tone";

export const replicaRegions = (topic: TopicReplicas): readonly string[] =>
  [...new Set(topic.partitions.flatMap(({ replicas }) => replicas.map(({ region }) => region)))].sort();

const isBehind = (replica: ReplicaPlace): boolean => !replica.is_in_isr && replica.is_observer !== true;

export const isUnderReplicated = ({ replicas }: PartitionPlaces): boolean => replicas.some(isBehind);

export const troubleOf = ({ partitions }: TopicReplicas) => ({
  leaderless: partitions.filter(({ leader }) => leader < 0).length,
  underReplicated: partitions.filter(isUnderReplicated).length,
});

/** Those without a leader first, then those that are under-replicated. */
export const worstPartitionsFirst = (partitions: readonly PartitionPlaces[]): readonly PartitionPlaces[] =>
  partitions.toSorted(
    (one, other) =>
      Number(one.leader >= 0) - Number(other.leader >= 0) ||
      Number(isUnderReplicated(other)) - Number(isUnderReplicated(one)) ||
      one.partition_id - other.partition_id,
  );

/** Records that a replica lacks of what its leader has; null when either is not told. */
export function recordsBehind(partition: PartitionPlaces, replica: ReplicaPlace): number | null {
  const leader = partition.replicas.find(({ is_leader }) => is_leader);
  if (leader?.log_end_offset == null || replica.log_end_offset === null) return null;
  return Math.max(0, leader.log_end_offset - replica.log_end_offset);
}

export function replicaRole(replica: ReplicaPlace): { readonly name: string; readonly tone: Tone } {
  if (replica.is_leader) return { name: "leader", tone: "good" };
  if (replica.is_in_isr) return { name: replica.is_observer ? "observer, promoted" : "in sync", tone: "good" };
  if (replica.is_observer) return { name: "observer", tone: replica.is_caught_up ? "busy" : "warn" };
  return { name: "behind", tone: "bad" };
}
