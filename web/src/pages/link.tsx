// A link: its state, its mirror topics and what can be done with them, lag over time, configs.
import { useState } from "react";
import { useParams } from "wouter";
import { api, fetchApi, live, refresh } from "../api/client";
import { useFeed } from "../api/feed";
import type { LagSeries, Link } from "../api/schema";
import { CreateMirror } from "../forms/create-mirror";
import { LinkActions } from "../forms/link-actions";
import { clusterName } from "../logic/flows";
import { clusterPath } from "../logic/paths";
import { plain, spaced } from "../logic/format";
import { stateTone } from "../logic/tone";
import { Mirrors } from "../mirrors/mirrors";
import { Configs } from "../ui/configs";
import { LagPanel } from "../ui/lag-chart";
import { Facts, PageHead } from "../ui/page-head";
import { Pill, StatePill } from "../ui/pill";
import { Answer } from "../ui/states";
import { useCluster } from "./use-cluster";

export default function LinkPage() {
  const { link = "" } = useParams();
  const { id, cluster } = useCluster();
  const [creating, setCreating] = useState(false);
  const params = { path: { cluster_id: id, link_name: link }, query: { include_tasks: true } };
  const asked = api.useQuery("get", "/kafka/v3/clusters/{cluster_id}/links/{link_name}", { params }, live);
  return (
    <>
      <PageHead
        crumbs={[["/clusters", "Clusters"], [clusterPath(id), cluster?.name ?? id], [clusterPath(id, "links"), "Links"]]}
        title={link}
      >
        {asked.data !== undefined && <LinkActions link={asked.data} />}
        <button type="button" className="primary" onClick={() => setCreating(true)}>
          Mirror a topic
        </button>
      </PageHead>
      <Answer of={asked}>
        {(data) => (
          <>
            <About link={data} />
            {creating && <CreateMirror link={data} onClose={() => setCreating(false)} />}
          </>
        )}
      </Answer>
      <Mirrors cluster={id} link={link} />
      <LagPanel title="Lag of the mirror topics" query={{ by: "topic", kind: "link", link, cluster_id: id }} label={({ topic }: LagSeries) => topic} />
      <LinkConfigs cluster={id} link={link} />
    </>
  );
}

function About({ link }: { link: Link }) {
  const { topology } = useFeed();
  const clusters = topology?.clusters ?? [];
  return (
    <section className="panel">
      {link.link_error_message !== "" && <p className="problem">{link.link_error_message}</p>}
      <Facts
        of={[
          ["State", <StatePill key="state" state={link.link_state} />],
          ["From", clusterName(link.source_cluster_id, clusters)],
          ["To", clusterName(link.cluster_id, clusters)],
          ["Mirror topics", link.topic_names.length],
          ...(link.tasks ?? []).map(
            (task) =>
              [
                spaced(task.task_name),
                <Pill key={task.task_name} tone={task.errors.length > 0 ? "bad" : stateTone(task.state)}>
                  {task.errors[0]?.error_message || plain(task.state)}
                </Pill>,
              ] as const,
          ),
        ]}
      />
    </section>
  );
}

function LinkConfigs({ cluster, link }: { cluster: string; link: string }) {
  const path = { cluster_id: cluster, link_name: link };
  const asked = api.useQuery("get", "/kafka/v3/clusters/{cluster_id}/links/{link_name}/configs", { params: { path } });
  const change = async (name: string, value: string | null): Promise<void> => {
    const { error } = await fetchApi.PUT("/kafka/v3/clusters/{cluster_id}/links/{link_name}/configs/{config_name}", {
      params: { path: { ...path, config_name: name } },
      body: { value },
    });
    if (error) throw error;
    await refresh();
  };
  return (
    <Answer of={asked}>
      {({ data }) => <Configs configs={data.map((one) => ({ ...one, is_read_only: one.read_only, is_sensitive: one.sensitive }))} change={change} />}
    </Answer>
  );
}
