// A topic: the replicas of each partition with their progress, lag over time, configs.
import { useParams } from "wouter";
import { api, fetchApi, live, refresh } from "../api/client";
import type { LagSeries, TopicReplicas } from "../api/schema";
import { count } from "../logic/format";
import { clusterPath } from "../logic/paths";
import { replicaRegions, troubleOf } from "../logic/replicas";
import { Configs } from "../ui/configs";
import { LagPanel } from "../ui/lag-chart";
import { Facts, PageHead } from "../ui/page-head";
import { Pill } from "../ui/pill";
import { Answer } from "../ui/states";
import { DeleteTopic } from "../forms/delete-topic";
import { Replicas } from "./replicas";
import { useCluster } from "./use-cluster";

export default function TopicPage() {
  const { topic = "" } = useParams();
  const { id, cluster } = useCluster();
  const path = { cluster_id: id, topic_name: topic };
  const replicas = api.useQuery("get", "/api/v1/clusters/{cluster_id}/topics/{topic_name}/replicas", { params: { path } }, live);
  return (
    <>
      <PageHead crumbs={[["/clusters", "Clusters"], [clusterPath(id), cluster?.name ?? id]]} title={topic}>
        <DeleteTopic cluster={id} topic={topic} />
      </PageHead>
      <Answer of={replicas}>
        {(data) => (
          <>
            <section className="panel">
              <Overview of={data} />
            </section>
            <section className="panel">
              <h2>Partitions by region</h2>
              <Replicas topic={data} />
            </section>
          </>
        )}
      </Answer>
      {cluster?.kind === "isthmus" && <LagPanel title="Lag of the copies" query={{ by: "copy", topic, cluster_id: id }} label={copyLabel} />}
      <TopicConfigs cluster={id} topic={topic} />
    </>
  );
}

const copyLabel = ({ kind, link, partition, target_broker }: LagSeries): string =>
  target_broker < 0 ? `${kind} ${link} p${partition}` : `${kind} p${partition} on ${target_broker}`;

function Overview({ of }: { of: TopicReplicas }) {
  const { leaderless, underReplicated } = troubleOf(of);
  return (
    <Facts
      of={[
        ["Partitions", count(of.partitions.length)],
        ["Replicas", count(Math.max(0, ...of.partitions.map(({ replicas }) => replicas.length)))],
        ["Regions", replicaRegions(of).filter(Boolean).join(", ") || "none"],
        ["Without leader", leaderless > 0 ? <Pill tone="bad">{leaderless}</Pill> : "0"],
        ["Under-replicated", underReplicated > 0 ? <Pill tone="warn">{underReplicated}</Pill> : "0"],
      ]}
    />
  );
}

function TopicConfigs({ cluster, topic }: { cluster: string; topic: string }) {
  const path = { cluster_id: cluster, topic_name: topic };
  const asked = api.useQuery("get", "/kafka/v3/clusters/{cluster_id}/topics/{topic_name}/configs", { params: { path } });
  const change = async (name: string, value: string | null): Promise<void> => {
    const { error } = await fetchApi.PUT("/kafka/v3/clusters/{cluster_id}/topics/{topic_name}/configs/{name}", {
      params: { path: { ...path, name } },
      body: { value },
    });
    if (error) throw error;
    await refresh();
  };
  return <Answer of={asked}>{({ data }) => <Configs configs={data} change={change} />}</Answer>;
}
