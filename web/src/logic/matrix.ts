// Topics by region, from the status of every replica: what leads, what is in sync, what observes, what is behind.
import type { Broker, ReplicaStatus } from "../api/schema";

export interface Share {
  readonly leaders: number;
  readonly inSync: number;
  readonly observers: number;
  readonly behind: number;
}

export interface TopicRow {
  readonly topic: string;
  readonly partitions: number;
  /** Partitions of which a replica that could be in sync is not. */
  readonly underReplicated: number;
  readonly leaderless: number;
  readonly shares: ReadonlyMap<string, Share>;
}

const NONE: Share = { leaders: 0, inSync: 0, observers: 0, behind: 0 };

export function topicRows(statuses: readonly ReplicaStatus[], brokers: readonly Broker[]): readonly TopicRow[] {
  const regions = new Map(brokers.map(({ broker_id, region }) => [broker_id, region]));
  const topics = new Map<string, ReplicaStatus[]>();
  for (const status of statuses) {
    const found = topics.get(status.topic_name);
    if (found === undefined) topics.set(status.topic_name, [status]);
    else found.push(status);
  }
  return [...topics].map(([topic, replicas]) => row(topic, replicas, regions)).sort(worstFirst);
}

function row(topic: string, replicas: readonly ReplicaStatus[], regions: ReadonlyMap<number, string>): TopicRow {
  const partitions = new Set(replicas.map(({ partition_id }) => partition_id));
  const led = new Set(replicas.filter(({ is_leader }) => is_leader).map(({ partition_id }) => partition_id));
  const behind = replicas.filter((one) => !one.is_observer && !one.is_in_isr).map(({ partition_id }) => partition_id);
  const shares = new Map<string, Share>();
  for (const replica of replicas) {
    const region = regions.get(replica.broker_id) ?? "";
    shares.set(region, plus(shares.get(region) ?? NONE, replica));
  }
  return {
    topic,
    partitions: partitions.size,
    underReplicated: new Set(behind).size,
    leaderless: partitions.size - led.size,
    shares,
  };
}

const plus = (share: Share, replica: ReplicaStatus): Share => ({
  leaders: share.leaders + Number(replica.is_leader),
  inSync: share.inSync + Number(replica.is_in_isr),
  observers: share.observers + Number(replica.is_observer),
  behind: share.behind + Number(replica.is_observer ? !replica.is_caught_up : !replica.is_in_isr),
});

const worstFirst = (one: TopicRow, other: TopicRow): number =>
  other.leaderless - one.leaderless || other.underReplicated - one.underReplicated || one.topic.localeCompare(other.topic);

export const isInternal = (topic: string): boolean => topic.startsWith("__") || topic.endsWith(".internal");
