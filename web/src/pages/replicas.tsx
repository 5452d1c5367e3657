// Every partition of a topic with its replicas, region by region.
import type { PartitionPlaces, ReplicaPlace, TopicReplicas } from "../api/schema";
import { duration, offset, records } from "../logic/format";
import { recordsBehind, replicaRegions, replicaRole, worstPartitionsFirst } from "../logic/replicas";
import { Pill } from "../ui/pill";
import { Table } from "../ui/table";

export function Replicas({ topic }: { topic: TopicReplicas }) {
  const regions = replicaRegions(topic).map((region) => ({
    head: region || "no region",
    cell: (partition: PartitionPlaces) =>
      partition.replicas
        .filter((replica) => replica.region === region)
        .map((replica) => <Replica key={replica.broker_id} partition={partition} replica={replica} />),
  }));
  return (
    <>
      <Table
        label="Partitions by region"
        shape="matrix"
        rows={worstPartitionsFirst(topic.partitions)}
        rowKey={({ partition_id }) => String(partition_id)}
        columns={[
          { head: "Partition", cell: ({ partition_id }) => partition_id },
          { head: "Leader", cell: ({ leader }) => (leader < 0 ? <Pill tone="bad">none</Pill> : leader) },
          { head: "Log end", cell: (partition) => offset(leaderEnd(partition)), numeric: true },
          ...regions,
        ]}
      />
      <p className="muted">The number is the broker: filled leads, framed is in sync, dashed observes, red is behind.</p>
    </>
  );
}

const leaderEnd = ({ replicas }: PartitionPlaces): number | null =>
  replicas.find(({ is_leader }) => is_leader)?.log_end_offset ?? null;

function Replica({ partition, replica }: { partition: PartitionPlaces; replica: ReplicaPlace }) {
  const { name, tone } = replicaRole(replica);
  const missing = recordsBehind(partition, replica);
  const lag = missing === null ? "" : `, ${records(missing)} and ${duration(replica.caught_up_lag_ms)} behind`;
  const label = `broker ${replica.broker_id}: ${name}${replica.is_leader ? "" : lag}`;
  const role = replica.is_leader ? "leader" : replica.is_observer && !replica.is_in_isr ? "observer" : "";
  return (
    <span className={`replica tone-${tone} ${role}`} role="img" aria-label={label} title={label}>
      {replica.broker_id}
      {missing !== null && missing > 0 && <small>−{missing}</small>}
    </span>
  );
}
