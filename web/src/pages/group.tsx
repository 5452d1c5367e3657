// A group: its lag in every partition, and what only streams groups have.
import { Link, useParams } from "wouter";
import { api, live } from "../api/client";
import type { GroupLag } from "../api/schema";
import { count, counted, records } from "../logic/format";
import { clusterPath, topicPath } from "../logic/paths";
import { Facts, PageHead } from "../ui/page-head";
import { StatePill } from "../ui/pill";
import { Answer, Empty } from "../ui/states";
import { Table } from "../ui/table";
import { StreamsGroup } from "./streams-group";
import { useCluster } from "./use-cluster";

export default function GroupPage() {
  const { group = "" } = useParams();
  const { id, cluster } = useCluster();
  const path = { cluster_id: id, consumer_group_id: group };
  const about = api.useQuery("get", "/kafka/v3/clusters/{cluster_id}/consumer-groups/{consumer_group_id}", { params: { path } }, live);
  const lags = api.useQuery("get", "/kafka/v3/clusters/{cluster_id}/consumer-groups/{consumer_group_id}/lags", { params: { path } }, live);
  const isStreams = about.data?.type === "STREAMS";
  return (
    <>
      <PageHead
        crumbs={[["/clusters", "Clusters"], [clusterPath(id), cluster?.name ?? id], [clusterPath(id, "groups"), "Groups"]]}
        title={group}
      />
      <section className="panel">
        <Answer of={about}>
          {(data) => (
            <Facts
              of={[
                ["State", <StatePill key="state" state={data.state} />],
                ["Type", data.type.toLowerCase()],
                ...(isStreams ? [] : [["Assignor", data.partition_assignor || "none"] as const]),
              ]}
            />
          )}
        </Answer>
      </section>
      {isStreams && <StreamsGroup cluster={id} group={group} />}
      <section className="panel">
        <Answer of={lags}>{({ data }) => <Lags cluster={id} lags={data} />}</Answer>
      </section>
    </>
  );
}

function Lags({ cluster, lags }: { cluster: string; lags: readonly GroupLag[] }) {
  if (lags.length === 0) {
    return (
      <Empty title="No offsets are committed">
        <p>They appear with the group's first commit.</p>
      </Empty>
    );
  }
  const sum = lags.reduce((total, { lag }) => total + lag, 0);
  const most = Math.max(1, ...lags.map(({ lag }) => lag));
  return (
    <>
      <h2>
        {records(sum)} behind <span className="muted">in {counted(lags.length, "partition")}</span>
      </h2>
      <Table
        label="Lag by partition"
        rows={[...lags].sort((one, other) => other.lag - one.lag)}
        rowKey={(one) => `${one.topic_name} ${one.partition_id}`}
        columns={[
          { head: "Topic", cell: (one) => <Link href={topicPath(cluster, one.topic_name)}>{one.topic_name}</Link> },
          { head: "Partition", cell: (one) => one.partition_id, numeric: true },
          { head: "Behind", cell: (one) => records(one.lag), numeric: true },
          { head: "Share", cell: (one) => <progress max={most} value={one.lag} aria-label={`${one.lag} records`} /> },
          { head: "Committed", cell: (one) => count(one.current_offset), numeric: true },
          { head: "Log end", cell: (one) => count(one.log_end_offset), numeric: true },
          { head: "Read by", cell: (one) => one.client_id || <span className="muted">no consumer</span> },
        ]}
      />
    </>
  );
}
