// What a streams group has beside any other group: its epochs, its topology, and the tasks of its members.
import { Link } from "wouter";
import { api, live } from "../api/client";
import type { StreamsMember, Subtopology } from "../api/schema";
import { counted, offset } from "../logic/format";
import { topicPath } from "../logic/paths";
import { hasItsTarget, tasks } from "../logic/tasks";
import { Facts } from "../ui/page-head";
import { Pill } from "../ui/pill";
import { Answer, Empty } from "../ui/states";
import { Table } from "../ui/table";

export function StreamsGroup({ cluster, group }: { cluster: string; group: string }) {
  const path = { cluster_id: cluster, group_id: group };
  const about = api.useQuery("get", "/kafka/v3/clusters/{cluster_id}/streams-groups/{group_id}", { params: { path } }, live);
  const parts = api.useQuery("get", "/kafka/v3/clusters/{cluster_id}/streams-groups/{group_id}/subtopologies", { params: { path } }, live);
  const members = api.useQuery("get", "/kafka/v3/clusters/{cluster_id}/streams-groups/{group_id}/members", { params: { path } }, live);
  return (
    <>
      <section className="panel">
        <Answer of={about}>
          {(data) => (
            <Facts
              of={[
                ["Group epoch", data.group_epoch],
                ["Assignment epoch", data.target_assignment_epoch],
                ["Topology epoch", offset(data.topology_epoch)],
              ]}
            />
          )}
        </Answer>
        <Answer of={members}>{({ data }) => <Members members={data} />}</Answer>
      </section>
      <section className="panel">
        <Answer of={parts}>{({ data }) => <Topology cluster={cluster} parts={data} />}</Answer>
      </section>
    </>
  );
}

function Members({ members }: { members: readonly StreamsMember[] }) {
  if (members.length === 0) {
    return (
      <Empty title="No member">
        <p>The tasks are assigned when an instance of the application joins.</p>
      </Empty>
    );
  }
  return (
    <>
      <h2>{counted(members.length, "member")}</h2>
      <Table
        label="Members"
        rows={members}
        rowKey={(one) => one.member_id}
        columns={[
          { head: "Member", cell: (one) => one.member_id },
          { head: "Client", cell: (one) => one.client_id },
          { head: "Process", cell: (one) => one.process_id },
          { head: "Epoch", cell: (one) => one.member_epoch, numeric: true },
          { head: "Active tasks", cell: (one) => tasks(one.tasks.active) || "none" },
          { head: "Standby tasks", cell: (one) => tasks(one.tasks.standby) || "none" },
          { head: "Warmup tasks", cell: (one) => tasks(one.tasks.warmup) || "none" },
          { head: "Target", cell: (one) => <Target of={one} /> },
        ]}
      />
    </>
  );
}

const Target = ({ of }: { of: StreamsMember }) =>
  hasItsTarget(of.tasks, of.target_tasks) ? <Pill tone="good">reached</Pill> : <Pill tone="busy">{`active ${tasks(of.target_tasks.active) || "none"}`}</Pill>;

function Topology({ cluster, parts }: { cluster: string; parts: readonly Subtopology[] }) {
  if (parts.length === 0) {
    return (
      <Empty title="No topology">
        <p>The first member that joins brings it.</p>
      </Empty>
    );
  }
  const topics = (names: readonly string[]) =>
    names.length === 0 ? (
      <span className="muted">none</span>
    ) : (
      names.map((name) => (
        <div key={name}>
          <Link href={topicPath(cluster, name)}>{name}</Link>
        </div>
      ))
    );
  return (
    <>
      <h2>
        Topology <span className="muted">of {parts.length === 1 ? "1 subtopology" : `${parts.length} subtopologies`}</span>
      </h2>
      <Table
        label="Topology"
        rows={parts}
        rowKey={(one) => one.subtopology_id}
        columns={[
          { head: "Subtopology", cell: (one) => one.subtopology_id },
          { head: "Sources", cell: (one) => topics(one.source_topics) },
          { head: "Repartition sources", cell: (one) => topics(one.repartition_source_topics) },
          { head: "Changelogs", cell: (one) => topics(one.changelog_topics) },
          { head: "Repartition sinks", cell: (one) => topics(one.repartition_sink_topics) },
        ]}
      />
    </>
  );
}
