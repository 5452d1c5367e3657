// The links that copy into a cluster, and the mirror topics they fill.
import { useState } from "react";
import { Link } from "wouter";
import { api, live } from "../api/client";
import { useFeed } from "../api/feed";
import type { Cluster, Link as LinkData } from "../api/schema";
import { CreateLink } from "../forms/create-link";
import { clusterName } from "../logic/flows";
import { count } from "../logic/format";
import { linkPath } from "../logic/paths";
import { StatePill } from "../ui/pill";
import { Answer, Empty } from "../ui/states";
import { Table } from "../ui/table";

export default function Links({ cluster }: { cluster: Cluster }) {
  const [creating, setCreating] = useState(false);
  const path = { cluster_id: cluster.cluster_id };
  const asked = api.useQuery("get", "/kafka/v3/clusters/{cluster_id}/links", { params: { path } }, live);
  return (
    <section className="panel">
      <div className="bar">
        <h2>Links into {cluster.name}</h2>
        <button type="button" className="primary" onClick={() => setCreating(true)}>
          Create link
        </button>
      </div>
      <Answer of={asked}>{({ data }) => <List cluster={cluster} links={data} />}</Answer>
      {creating && <CreateLink cluster={cluster} onClose={() => setCreating(false)} />}
    </section>
  );
}

function List({ cluster, links }: { cluster: Cluster; links: readonly LinkData[] }) {
  const { topology } = useFeed();
  if (links.length === 0) {
    return (
      <Empty title="No link copies into this cluster">
        <p>A link copies topics of another cluster here, record by record at the same offsets. Create one to begin.</p>
      </Empty>
    );
  }
  return (
    <Table
      label="Links"
      rows={links}
      rowKey={({ link_name }) => link_name}
      columns={[
        { head: "Link", cell: ({ link_name }) => <Link href={linkPath(cluster.cluster_id, link_name)}>{link_name}</Link> },
        { head: "State", cell: ({ link_state }) => <StatePill state={link_state} /> },
        { head: "Source", cell: ({ source_cluster_id }) => clusterName(source_cluster_id, topology?.clusters ?? []) },
        { head: "Mirror topics", cell: ({ topic_names }) => count(topic_names.length), numeric: true },
        { head: "Error", cell: ({ link_error_message }) => link_error_message },
      ]}
    />
  );
}
