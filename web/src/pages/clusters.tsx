// All clusters that are registered, and how to register one.
import { useState } from "react";
import { Link } from "wouter";
import { api, refresh } from "../api/client";
import { useFeed } from "../api/feed";
import type { Cluster } from "../api/schema";
import { count, counted } from "../logic/format";
import { clusterPath } from "../logic/paths";
import { Dialog } from "../ui/dialog";
import { Field } from "../ui/field";
import { PageHead } from "../ui/page-head";
import { Pill, StatePill } from "../ui/pill";
import { Empty, Loading, ProblemNote } from "../ui/states";
import { Table } from "../ui/table";

export default function Clusters() {
  const { topology } = useFeed();
  const [registering, setRegistering] = useState(false);
  return (
    <>
      <PageHead crumbs={[["/", "Map"]]} title="Clusters">
        <button type="button" className="primary" onClick={() => setRegistering(true)}>
          Register a cluster
        </button>
      </PageHead>
      <section className="panel">{topology === null ? <Loading /> : <List clusters={topology.clusters} />}</section>
      {registering && <Register onClose={() => setRegistering(false)} />}
    </>
  );
}

function List({ clusters }: { clusters: readonly Cluster[] }) {
  if (clusters.length === 0) {
    return (
      <Empty title="No cluster is registered yet">
        <p>Register one by any of its brokers: Isthmus or Apache Kafka.</p>
      </Empty>
    );
  }
  return (
    <Table
      label="Clusters"
      rows={clusters}
      rowKey={(cluster) => cluster.cluster_id}
      columns={[
        { head: "Cluster", cell: (one) => <Link href={clusterPath(one.cluster_id)}>{one.name}</Link> },
        { head: "State", cell: (one) => <StatePill state={one.state} /> },
        { head: "Health", cell: (one) => <Health cluster={one} /> },
        { head: "Kind", cell: (one) => (one.kind === "isthmus" ? "Isthmus" : "Apache Kafka") },
        { head: "Regions", cell: (one) => one.regions.map(({ region }) => region).filter(Boolean).join(", ") },
        { head: "Brokers", cell: (one) => count(one.brokers.length), numeric: true },
        { head: "Topics", cell: (one) => count(one.topics), numeric: true },
        { head: "Partitions", cell: (one) => count(one.partitions), numeric: true },
      ]}
    />
  );
}

export function Health({ cluster }: { cluster: Cluster }) {
  if (cluster.state === "UNREACHABLE") return <Pill tone="bad">unreachable</Pill>;
  if (cluster.leaderless > 0) return <Pill tone="bad">{count(cluster.leaderless)} without leader</Pill>;
  const unreachable = cluster.brokers.filter(({ unreachable_since_ms }) => unreachable_since_ms !== null).length;
  if (unreachable > 0) return <Pill tone="bad">{counted(unreachable, "broker")} unreachable</Pill>;
  if (cluster.under_replicated > 0) return <Pill tone="warn">{count(cluster.under_replicated)} under-replicated</Pill>;
  return <Pill tone="good">all in sync</Pill>;
}

function Register({ onClose }: { onClose: () => void }) {
  const register = api.useMutation("post", "/api/v1/clusters", {
    onSuccess: () => {
      void refresh();
      onClose();
    },
  });
  return (
    <Dialog title="Register a cluster" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const form = new FormData(event.currentTarget);
          register.mutate({
            body: { name: String(form.get("name")), bootstrap_servers: String(form.get("bootstrap_servers")) },
          });
        }}
      >
        <Field label="Name" hint="What the console calls it.">
          <input name="name" required pattern="[A-Za-z0-9][A-Za-z0-9._\-]*" />
        </Field>
        <Field label="Bootstrap servers" hint="One or more of its brokers, as host:port, with commas.">
          <input name="bootstrap_servers" required placeholder="127.0.0.1:9092" />
        </Field>
        {register.error !== null && <ProblemNote error={register.error} />}
        <div className="actions">
          <button type="submit" className="primary" disabled={register.isPending}>
            Register
          </button>
        </div>
      </form>
    </Dialog>
  );
}
