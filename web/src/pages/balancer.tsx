// The balancer's plan for a cluster: what it would move and why, the brokers before and after, and carrying it out.
import { useState } from "react";
import { api, refresh } from "../api/client";
import type { Cluster, Plan } from "../api/schema";
import { bytes, counted } from "../logic/format";
import { type BrokerChange, brokerChanges } from "../logic/plan";
import { Dialog } from "../ui/dialog";
import { Field } from "../ui/field";
import { Facts } from "../ui/page-head";
import { Pill } from "../ui/pill";
import { Empty, Loading, ProblemNote } from "../ui/states";
import { type Column, Table } from "../ui/table";
import { TaskProgress } from "./task-progress";

export default function Balancer({ cluster }: { cluster: Cluster }) {
  const [leaving, setLeaving] = useState<ReadonlySet<number>>(new Set());
  const make = api.useMutation("post", "/api/v1/clusters/{cluster_id}/balancer/plans");
  const plan = (): void =>
    make.mutate({ params: { path: { cluster_id: cluster.cluster_id } }, body: { leaving: [...leaving] } });
  return (
    <>
      <section className="panel">
        <div className="bar">
          <h2>Balancer</h2>
          <button type="button" className="primary" disabled={make.isPending} onClick={plan}>
            Make a plan
          </button>
        </div>
        <p className="muted">A plan spreads replicas, disk, leaders and traffic over the brokers. Making one moves nothing.</p>
        <details>
          <summary>Brokers that shall be emptied</summary>
          <div className="bar">
            {cluster.brokers.map(({ broker_id, region }) => (
              <label key={broker_id}>
                <input
                  type="checkbox"
                  checked={leaving.has(broker_id)}
                  onChange={() => setLeaving(leaving.symmetricDifference(new Set([broker_id])))}
                />
                {broker_id} <span className="muted">{region}</span>
              </label>
            ))}
          </div>
        </details>
        {make.error !== null && <ProblemNote error={make.error} />}
        {make.isPending && <Loading />}
      </section>
      {make.data !== undefined && <PlanView key={make.data.made_ms} plan={make.data} />}
    </>
  );
}

function PlanView({ plan }: { plan: Plan }) {
  const [executing, setExecuting] = useState(false);
  const { unfixable, unknown_loads: unknownLoads, moves } = plan;
  return (
    <>
      <section className="panel">
        <div className="bar">
          <h2>The plan</h2>
          <button type="button" disabled={moves.length === 0} onClick={() => setExecuting(true)}>
            Carry it out…
          </button>
        </div>
        {[...unfixable, ...unknownLoads].map((sentence) => (
          <p key={sentence} className="note">{sentence}</p>
        ))}
        <Summary plan={plan} />
        <Goals plan={plan} />
      </section>
      <section className="panel">
        <h2>Brokers, before and after</h2>
        <p className="muted">Of each two bars the upper is now, the lower after the plan.</p>
        <Table label="Brokers before and after" rows={brokerChanges(plan)} rowKey={({ broker }) => String(broker)} columns={BROKERS} />
      </section>
      <section className="panel">
        <h2>Moves</h2>
        {moves.length === 0 ? <Empty title="Nothing to move"><p>The load is spread as well as it can be.</p></Empty> : <Moves plan={plan} />}
      </section>
      {executing && <Execute plan={plan} onClose={() => setExecuting(false)} />}
    </>
  );
}

function Summary({ plan }: { plan: Plan }) {
  const replicas = plan.moves.filter(({ leadership }) => !leadership);
  return (
    <Facts
      of={[
        ["Replicas to move", replicas.length],
        ["Leaders to move", plan.moves.length - replicas.length],
        ["Across regions", replicas.filter(({ crosses_regions }) => crosses_regions).length],
        ["Data to copy", bytes(plan.bytes)],
      ]}
    />
  );
}

const Goals = ({ plan }: { plan: Plan }) => (
  <Table
    label="Goals"
    rows={plan.goals}
    rowKey={({ goal }) => goal}
    columns={[
      { head: "Goal", cell: ({ goal, hard }) => <>{goal} {hard && <span className="muted">must hold</span>}</> },
      { head: "Violations", cell: (one) => <Change before={one.violations_before} after={one.violations_after} />, numeric: true },
      {
        head: "Highest over average",
        cell: (one) => (one.hard ? "–" : `${one.spread_before.toFixed(2)} → ${one.spread_after.toFixed(2)}`),
        numeric: true,
      },
    ]}
  />
);

function Change({ before, after }: { before: number; after: number }) {
  if (before === 0 && after === 0) return <Pill tone="good">none</Pill>;
  return <Pill tone={after === 0 ? "good" : "warn"}>{`${before} → ${after}`}</Pill>;
}

interface SideProps {
  readonly value: number;
  readonly most: number;
  readonly told: string;
}

const Side = ({ value, most, told }: SideProps) => (
  <>
    <progress max={most || 1} value={value} aria-hidden="true" />
    <span>{told}</span>
  </>
);

const both = (head: string, pick: (change: BrokerChange) => BrokerChange["disk"], told: (value: number) => string): Column<BrokerChange> => ({
  head,
  cell: (change) => {
    const { before, after, most } = pick(change);
    return (
      <span className="bars">
        <Side value={before} most={most} told={told(before)} />
        <Side value={after} most={most} told={told(after)} />
      </span>
    );
  },
});

const BROKERS: readonly Column<BrokerChange>[] = [
  { head: "Broker", cell: ({ broker, rack }) => <>{broker} <span className="muted">{rack}</span></> },
  both("Replicas", ({ replicas }) => replicas, String),
  both("Leaders", ({ leaders }) => leaders, String),
  both("Disk", ({ disk }) => disk, bytes),
  both("Network out", ({ network }) => network, (value) => `${bytes(value)}/s`),
];

const Moves = ({ plan }: { plan: Plan }) => (
  <Table
    label="Moves"
    rows={plan.moves}
    rowKey={(one) => `${one.topic} ${one.partition} ${one.source} ${one.target} ${one.leadership}`}
    columns={[
      { head: "Partition", cell: (one) => `${one.topic}-${one.partition}` },
      { head: "What", cell: ({ leadership }) => (leadership ? "leadership" : "replica") },
      { head: "From", cell: ({ source }) => source, numeric: true },
      { head: "To", cell: ({ target }) => target, numeric: true },
      { head: "Data", cell: (one) => bytes(one.bytes), numeric: true },
      { head: "Why", cell: ({ reason, crosses_regions }) => <>{reason} {crosses_regions && <Pill tone="warn">crosses regions</Pill>}</> },
    ]}
  />
);

const PACE = 10;

function Execute({ plan, onClose }: { plan: Plan; onClose: () => void }) {
  const begin = api.useMutation("post", "/api/v1/tasks");
  const close = (): void => {
    void refresh();
    onClose();
  };
  const partitions = plan.targets.map(({ topic_name, partition_id, broker_ids, observers }) => ({ topic_name, partition_id, broker_ids, observers }));
  return (
    <Dialog title="Carry out the plan" onClose={close}>
      {begin.data !== undefined ? (
        <TaskProgress task={begin.data} />
      ) : (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            const megabytes = Number(new FormData(event.currentTarget).get("pace"));
            begin.mutate({ body: { kind: "execute-plan", cluster_id: plan.cluster_id, partitions, bytes_per_second: megabytes * 1_000_000, moves_per_broker: 5 } });
          }}
        >
          <p>
            {counted(partitions.length, "partition")} and {bytes(plan.bytes)} move, a few at a time. Clients go on meanwhile. Throttles are
            taken away at the end, whatever happens.
          </p>
          <Field label="MB a second for each broker" hint="0 holds nothing back.">
            <input name="pace" type="number" min={0} defaultValue={PACE} required />
          </Field>
          {begin.error !== null && <ProblemNote error={begin.error} />}
          <div className="actions">
            <button type="submit" className="primary" disabled={begin.isPending}>
              Begin
            </button>
          </div>
        </form>
      )}
    </Dialog>
  );
}
