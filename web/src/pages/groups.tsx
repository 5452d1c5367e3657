// The groups of a cluster with their lag.
import { useState } from "react";
import { Link } from "wouter";
import { api, live } from "../api/client";
import type { Cluster } from "../api/schema";
import { records } from "../logic/format";
import { groupPath } from "../logic/paths";
import { StatePill } from "../ui/pill";
import { Answer, Empty } from "../ui/states";
import { Table } from "../ui/table";

export default function Groups({ cluster }: { cluster: Cluster }) {
  const [wanted, setWanted] = useState("");
  const id = cluster.cluster_id;
  const asked = api.useQuery("get", "/kafka/v3/clusters/{cluster_id}/consumer-groups", { params: { path: { cluster_id: id } } }, live);
  return (
    <section className="panel">
      <div className="bar">
        <h2>Groups</h2>
        <input type="search" aria-label="Search groups" placeholder="Search groups" value={wanted} onChange={(event) => setWanted(event.target.value)} />
      </div>
      <Answer of={asked}>
        {({ data }) => {
          const rows = data.filter(({ consumer_group_id }) => consumer_group_id.includes(wanted.trim()));
          if (rows.length === 0) {
            return (
              <Empty title="No group to show">
                <p>A group appears when its first consumer joins or commits an offset.</p>
              </Empty>
            );
          }
          return (
            <Table
              label="Groups"
              rows={rows}
              rowKey={(one) => one.consumer_group_id}
              columns={[
                { head: "Group", cell: (one) => <Link href={groupPath(id, one.consumer_group_id)}>{one.consumer_group_id}</Link> },
                { head: "State", cell: (one) => <StatePill state={one.state} /> },
                { head: "Type", cell: (one) => one.type.toLowerCase() },
                { head: "Assignor", cell: (one) => one.partition_assignor || "none" },
                { head: "Total lag", cell: (one) => <Lag cluster={id} group={one.consumer_group_id} />, numeric: true },
              ]}
            />
          );
        }}
      </Answer>
    </section>
  );
}

/** A group that has committed nothing has no lag. */
function Lag({ cluster, group }: { cluster: string; group: string }) {
  const path = { cluster_id: cluster, consumer_group_id: group };
  const asked = api.useQuery("get", "/kafka/v3/clusters/{cluster_id}/consumer-groups/{consumer_group_id}/lag-summary", { params: { path } }, live);
  return asked.data === undefined ? "–" : records(asked.data.total_lag);
}
