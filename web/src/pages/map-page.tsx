// The first page: the map, what is wrong, and every flow as a row.
import { Link } from "wouter";
import { useFeed } from "../api/feed";
import type { Flow, Topology } from "../api/schema";
import { clusterName, flowLabel, flowName } from "../logic/flows";
import { lagDuration, lagRecords } from "../logic/format";
import { linkPath } from "../logic/paths";
import { endsOf, regionViews } from "../logic/regions";
import { flowIsLost, flowTone } from "../logic/tone";
import { WorldMap } from "../map/world-map";
import { Dot, Pill, StatePill } from "../ui/pill";
import { Empty, Loading } from "../ui/states";

export function MapPage() {
  const { topology } = useFeed();
  if (topology === null) return <Loading />;
  if (topology.clusters.length === 0) {
    return (
      <Empty title="No cluster is registered yet">
        <p>
          <Link href="/clusters">Register a cluster</Link> by any of its brokers, and it appears here with its regions.
        </p>
      </Empty>
    );
  }
  return (
    <>
      <title>Map · Isthmus</title>
      <h1 className="unseen">Map of regions</h1>
      <Troubles topology={topology} />
      <WorldMap topology={topology} />
      <Legend />
      <Flows topology={topology} />
    </>
  );
}

function Troubles({ topology }: { topology: Topology }) {
  const regions = regionViews(topology).filter(({ state }) => state !== "reachable");
  if (regions.length === 0) return null;
  return (
    <div className="troubles" role="alert">
      {regions.map((region) => (
        <p key={region.key} className={region.state === "unreachable" ? "tone-bad" : "tone-warn"}>
          <strong>
            {region.title} {region.state === "unreachable" ? "is unreachable" : "is impaired"}:
          </strong>{" "}
          {region.trouble.join("; ")}
        </p>
      ))}
    </div>
  );
}

const Legend = () => (
  <ul className="legend" aria-label="Legend">
    <li className="arc link tone-good"><Line /> link</li>
    <li className="arc mirror tone-good"><Line /> mirror</li>
    <li className="arc observer tone-good"><Line /> to observers</li>
    <li><Dot tone="good" /> caught up within 10 s</li>
    <li><Dot tone="warn" /> behind, or partly unknown</li>
    <li><Dot tone="bad" /> stale, failed, or an end is unreachable</li>
    <li><Dot tone="quiet" /> lag unknown</li>
  </ul>
);

const Line = () => (
  <svg width="36" height="8" aria-hidden="true">
    <path className="arc-way" d="M0 4H36" />
    <path className="arc-dashes" d="M0 4H36" />
  </svg>
);

function Flows({ topology }: { topology: Topology }) {
  if (topology.flows.length === 0) {
    return (
      <Empty title="Nothing flows between regions yet">
        <p>Create a link on the page of the cluster that shall hold the copy, or a topic with observers in another region.</p>
      </Empty>
    );
  }
  return (
    <section className="panel">
      <h2>Flows</h2>
      <div className="scroll">
        <table>
          <thead>
            <tr><th scope="col">Flow</th><th scope="col">State</th><th scope="col" className="number">Behind</th><th scope="col" className="number">Records</th><th scope="col">Kind</th><th scope="col">From</th><th scope="col">To</th></tr>
          </thead>
          <tbody>
            {topology.flows.map((flow) => (
              <FlowRow key={flow.flow_id} flow={flow} topology={topology} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function FlowRow({ flow, topology }: { flow: Flow; topology: Topology }) {
  const { clusters } = topology;
  const name = flowName(flow, clusters);
  const [source, target] = endsOf(flow);
  const lost = flowIsLost(flow, clusters);
  return (
    <tr>
      <th scope="row">{flow.kind === "link" ? <Link href={linkPath(flow.target_cluster, flow.name)}>{name}</Link> : name}</th>
      <td>{lost ? <Pill tone="bad">{flowLabel(flow, topology)}</Pill> : <StatePill state={flow.state} />} {flow.message}</td>
      <td className={`number text-${flowTone(flow, clusters)}`}>{lagDuration(lost ? null : flow.lag_ms)}</td>
      <td className="number">{lagRecords(lost ? null : flow.lag_records)}</td>
      <td>{flow.kind}</td>
      <td>{clusterName(flow.source_cluster, clusters)} <span className="muted">{source}</span></td>
      <td>{clusterName(flow.target_cluster, clusters)} <span className="muted">{target}</span></td>
    </tr>
  );
}
