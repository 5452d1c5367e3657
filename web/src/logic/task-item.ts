// What an item of a task is about: a topic, a partition, or a whole plan.
import { counted } from "./format";

export function itemName({ topic_name: topic, partition_id: partition, partitions }: Readonly<Record<string, unknown>>): string {
  if (typeof partitions === "number") return counted(partitions, "partition");
  return partition === undefined ? String(topic) : `${String(topic)}-${String(partition)}`;
}
