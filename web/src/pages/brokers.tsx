// The brokers of a cluster, by region.
import type { Broker, Cluster } from "../api/schema";
import { count, counted, timeOfDay } from "../logic/format";
import { Pill } from "../ui/pill";
import { Empty } from "../ui/states";
import { Table } from "../ui/table";

export function Brokers({ cluster }: { cluster: Cluster }) {
  if (cluster.brokers.length === 0) {
    return (
      <Empty title="Its brokers are not known">
        <p>The cluster has not responded yet.</p>
      </Empty>
    );
  }
  const regions = [...new Set(cluster.brokers.map(({ region }) => region))].sort();
  return regions.map((region) => (
    <Region key={region} region={region} brokers={cluster.brokers.filter((broker) => broker.region === region)} />
  ));
}

function Region({ region, brokers }: { region: string; brokers: readonly Broker[] }) {
  return (
    <section className="panel">
      <h2>
        {region || "No region"} <span className="muted">{counted(brokers.length, "broker")}</span>
      </h2>
      <Table
        label={`Brokers in ${region}`}
        rows={brokers}
        rowKey={(broker) => String(broker.broker_id)}
        columns={[
          { head: "Broker", cell: (one) => one.broker_id },
          { head: "State", cell: (one) => <State broker={one} /> },
          { head: "Rack", cell: (one) => one.rack ?? "none" },
          { head: "Address", cell: (one) => <code>{`${one.host}:${one.port}`}</code> },
          { head: "Leaders", cell: (one) => count(one.leaders), numeric: true },
          { head: "Replicas", cell: (one) => count(one.replicas), numeric: true },
          { head: "In sync", cell: (one) => count(one.in_sync), numeric: true },
          { head: "Observers", cell: (one) => count(one.observers), numeric: true },
        ]}
      />
    </section>
  );
}

/** The cluster says who is fenced, the control plane who does not answer it. */
function State({ broker }: { broker: Broker }) {
  const { fenced, unreachable_since_ms: since } = broker;
  if (!fenced && since === null) return <Pill tone="good">serving</Pill>;
  return (
    <>
      {fenced && <Pill tone="bad">fenced</Pill>} {since !== null && <Pill tone="bad">unreachable since {timeOfDay(since)}</Pill>}
    </>
  );
}
