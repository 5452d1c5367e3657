// The topics of a cluster as a matrix over regions, those in trouble first.
import { useMemo, useState } from "react";
import { Link } from "wouter";
import { api, live } from "../api/client";
import type { Cluster, TopicData } from "../api/schema";
import { CreateTopic } from "../forms/create-topic";
import { count } from "../logic/format";
import { isInternal, type Share, type TopicRow, topicRows } from "../logic/matrix";
import { topicPath } from "../logic/paths";
import { Pill } from "../ui/pill";
import { Answer, Empty } from "../ui/states";
import { type Column, Table } from "../ui/table";

export function Topics({ cluster }: { cluster: Cluster }) {
  const [wanted, setWanted] = useState("");
  const [internal, setInternal] = useState(false);
  const [creating, setCreating] = useState(false);
  // Internal topics in trouble are always shown.
  const fits = (topic: string, troubled = false): boolean =>
    topic.toLowerCase().includes(wanted.trim().toLowerCase()) && (internal || troubled || !isInternal(topic));
  return (
    <section className="panel">
      <div className="bar">
        <h2>Topics</h2>
        <label>
          <input type="checkbox" checked={internal} onChange={(event) => setInternal(event.target.checked)} /> internal
        </label>
        <input type="search" aria-label="Search topics" placeholder="Search topics" value={wanted} onChange={(event) => setWanted(event.target.value)} />
        <button type="button" className="primary" onClick={() => setCreating(true)}>
          Create topic
        </button>
      </div>
      {cluster.kind === "isthmus" ? <Matrix cluster={cluster} fits={fits} /> : <Plain cluster={cluster} fits={fits} />}
      {creating && <CreateTopic cluster={cluster} onClose={() => setCreating(false)} />}
    </section>
  );
}

interface Props {
  readonly cluster: Cluster;
  readonly fits: (topic: string, troubled?: boolean) => boolean;
}

const NothingFits = () => (
  <Empty title="No topic to show">
    <p>Create one, or look for another name.</p>
  </Empty>
);

function Matrix({ cluster, fits }: Props) {
  const path = { cluster_id: cluster.cluster_id };
  const query = api.useQuery("get", "/kafka/v3/clusters/{cluster_id}/topics/-/partitions/-/replica-status", { params: { path } }, live);
  const rows = useMemo(() => topicRows(query.data?.data ?? [], cluster.brokers), [query.data, cluster.brokers]);
  if (query.error !== null && query.data === undefined) return <Plain cluster={cluster} fits={fits} />;
  return <Answer of={query}>{() => <MatrixTable cluster={cluster} rows={rows.filter((row) => fits(row.topic, row.leaderless + row.underReplicated > 0))} />}</Answer>;
}

function MatrixTable({ cluster, rows }: { cluster: Cluster; rows: readonly TopicRow[] }) {
  if (rows.length === 0) return <NothingFits />;
  const regions = cluster.regions.map(({ region }) => region);
  const columns: readonly Column<TopicRow>[] = [
    { head: "Topic", cell: ({ topic }) => <Link href={topicPath(cluster.cluster_id, topic)}>{topic}</Link> },
    { head: "Partitions", cell: ({ partitions }) => count(partitions) },
    { head: "Health", cell: (row) => <RowHealth row={row} /> },
    ...regions.map((region) => ({
      head: region || "no region",
      cell: ({ shares }: TopicRow) => <ShareCell share={shares.get(region)} />,
    })),
  ];
  return (
    <>
      <Table label="Topics by region" rows={rows} rowKey={({ topic }) => topic} columns={columns} shape="matrix" />
      <p className="muted">In each region: ★ leaders, ● replicas in sync, ○ observers, ▲ behind.</p>
    </>
  );
}

function RowHealth({ row }: { row: TopicRow }) {
  if (row.leaderless > 0) return <Pill tone="bad">{count(row.leaderless)} without leader</Pill>;
  if (row.underReplicated > 0) return <Pill tone="warn">{count(row.underReplicated)} under-replicated</Pill>;
  return <Pill tone="good">in sync</Pill>;
}

function ShareCell({ share }: { share: Share | undefined }) {
  if (share === undefined) return <span className="muted">–</span>;
  const { leaders, inSync, observers, behind } = share;
  const label = `${leaders} leaders, ${inSync} in sync, ${observers} observers, ${behind} behind`;
  return (
    <span className="split" role="img" aria-label={label} title={label}>
      {leaders > 0 && <span>★{leaders}</span>}
      {inSync > 0 && <span>●{inSync}</span>}
      {observers > 0 && <span>○{observers}</span>}
      {behind > 0 && <span className="text-bad">▲{behind}</span>}
    </span>
  );
}

/** What any cluster tells, also one of more partitions than their replicas can be told of. */
function Plain({ cluster, fits }: Props) {
  const path = { cluster_id: cluster.cluster_id };
  const query = api.useQuery("get", "/kafka/v3/clusters/{cluster_id}/topics", { params: { path } }, live);
  const columns: readonly Column<TopicData>[] = [
    { head: "Topic", cell: (one) => <Link href={topicPath(cluster.cluster_id, one.topic_name)}>{one.topic_name}</Link> },
    { head: "Partitions", cell: (one) => count(one.partitions_count), numeric: true },
    { head: "Replicas", cell: (one) => count(one.replication_factor), numeric: true },
  ];
  return (
    <Answer of={query}>
      {({ data }) => {
        const rows = data.filter(({ topic_name }) => fits(topic_name));
        return rows.length === 0 ? <NothingFits /> : <Table label="Topics" rows={rows} rowKey={(one) => one.topic_name} columns={columns} />;
      }}
    </Answer>
  );
}
