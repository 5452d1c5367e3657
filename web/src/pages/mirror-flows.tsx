// The mirror flows into a cluster: heartbeats, lag, and translated offsets.
import { api, live } from "../api/client";
import type { Cluster, LagSeries, MirrorFlows as Told } from "../api/schema";
import { ago, count, counted } from "../logic/format";
import { LagPanel } from "../ui/lag-chart";
import { Answer, Empty } from "../ui/states";
import { Table } from "../ui/table";
import { useNow } from "../ui/use-now";

export default function MirrorFlows({ cluster }: { cluster: Cluster }) {
  const path = { cluster_id: cluster.cluster_id };
  const asked = api.useQuery("get", "/api/v1/clusters/{cluster_id}/mirror-flows", { params: { path } }, live);
  return (
    <>
      <section className="panel">
        <h2>Mirrors into {cluster.name}</h2>
        <Answer of={asked}>{(told) => (isEmpty(told) ? <Nothing /> : <Flows told={told} />)}</Answer>
      </section>
      <LagPanel title="Lag of the mirrors" query={{ by: "topic", kind: "mirror", cluster_id: cluster.cluster_id }} label={topicOf} />
    </>
  );
}

const topicOf = ({ link, topic }: LagSeries): string => `${link} ${topic}`;

const isEmpty = ({ heartbeats, checkpoints, offset_syncs }: Told): boolean =>
  heartbeats.length + checkpoints.length + offset_syncs.length === 0;

const Nothing = () => (
  <Empty title="No mirror copies into this cluster">
    <p>Start one with isthmus mirror and the settings of a MirrorMaker.</p>
  </Empty>
);

const Flows = ({ told }: { told: Told }) => (
  <>
    <Heartbeats of={told.heartbeats} />
    {told.checkpoints.map((topic) => (
      <Checkpoints key={topic.topic_name} of={topic} />
    ))}
    {told.offset_syncs.map(({ other, offset_syncs }) => (
      <p key={other} className="muted">
        Offsets in step with {other}: {counted(offset_syncs.length, "partition")}.
      </p>
    ))}
  </>
);

function Heartbeats({ of }: { of: Told["heartbeats"] }) {
  const now = useNow();
  return (
    <Table
      label="Heartbeats"
      rows={of}
      rowKey={(one) => `${one.source} ${one.target}`}
      columns={[
        { head: "From", cell: ({ source }) => source },
        { head: "To", cell: ({ target }) => target },
        { head: "Last heartbeat", cell: ({ at_ms }) => ago(at_ms, now), numeric: true },
      ]}
    />
  );
}

function Checkpoints({ of: { source, checkpoints } }: { of: Told["checkpoints"][number] }) {
  if (checkpoints.length === 0) return <p className="muted">No group of {source} has a checkpoint here yet.</p>;
  return (
    <section>
      <h3>
        Groups of {source} <span className="muted">{counted(checkpoints.length, "checkpoint")}</span>
      </h3>
      <Table
        label={`Checkpoints from ${source}`}
        rows={checkpoints}
        rowKey={(one) => `${one.group} ${one.topic} ${one.partition}`}
        columns={[
          { head: "Group", cell: ({ group }) => group },
          { head: "Topic", cell: ({ topic }) => topic },
          { head: "Partition", cell: ({ partition }) => partition, numeric: true },
          { head: "There", cell: ({ upstream_offset }) => count(upstream_offset), numeric: true },
          { head: "Here", cell: ({ offset }) => count(offset), numeric: true },
        ]}
      />
    </section>
  );
}
