// The mirror topics of a link: chosen one by one or all, then paused, resumed, promoted or failed over.
import { useState } from "react";
import { Link } from "wouter";
import { api, live, refresh } from "../api/client";
import type { Mirror } from "../api/schema";
import { ago, count } from "../logic/format";
import { topicPath } from "../logic/paths";
import { type Transition, canChange, lagText } from "../logic/transition";
import { StatePill } from "../ui/pill";
import { Answer, Empty, ProblemNote } from "../ui/states";
import { type Column, Table } from "../ui/table";
import { useNow } from "../ui/use-now";
import { TransitionDialog } from "./transition-dialog";

export function Mirrors({ cluster, link }: { cluster: string; link: string }) {
  const path = { cluster_id: cluster, link_name: link };
  const asked = api.useQuery("get", "/kafka/v3/clusters/{cluster_id}/links/{link_name}/mirrors", { params: { path } }, live);
  return (
    <section className="panel">
      <Answer of={asked}>{({ data }) => <Choice cluster={cluster} link={link} mirrors={data} />}</Answer>
    </section>
  );
}

interface Props {
  readonly cluster: string;
  readonly link: string;
  readonly mirrors: readonly Mirror[];
}

function Choice({ cluster, link, mirrors }: Props) {
  const [names, setNames] = useState<ReadonlySet<string>>(new Set());
  const [dialog, setDialog] = useState<{ transition: Transition; mirrors: readonly Mirror[] } | null>(null);
  const now = useNow();
  const open = mirrors.filter(canChange);
  const chosen = open.filter(({ mirror_topic_name }) => names.has(mirror_topic_name));
  const toggle = (name: string): void => setNames(names.symmetricDifference(new Set([name])));
  const confirm = (transition: Transition): void => setDialog({ transition, mirrors: chosen });
  return (
    <>
      <div className="bar">
        <h2>Mirror topics</h2>
        <label>
          <input
            type="checkbox"
            checked={open.length > 0 && chosen.length === open.length}
            disabled={open.length === 0}
            onChange={(event) => setNames(new Set(event.target.checked ? open.map((one) => one.mirror_topic_name) : []))}
          />
          all
        </label>
        <Still cluster={cluster} link={link} chosen={chosen} />
        <button type="button" disabled={chosen.length === 0} onClick={() => confirm("promote")}>
          Promote…
        </button>
        <button type="button" disabled={chosen.length === 0} onClick={() => confirm("failover")}>
          Fail over…
        </button>
      </div>
      {mirrors.length === 0 ? (
        <Empty title="This link mirrors no topic yet">
          <p>Choose “Mirror a topic” to copy one of its source.</p>
        </Empty>
      ) : (
        <Table label="Mirror topics" rows={mirrors} rowKey={(one) => one.mirror_topic_name} columns={columnsOf(cluster, names, toggle, now)} />
      )}
      {dialog !== null && (
        <TransitionDialog {...dialog} cluster={cluster} link={link} onClose={() => setDialog(null)} />
      )}
    </>
  );
}

function columnsOf(cluster: string, names: ReadonlySet<string>, toggle: (name: string) => void, now: number): readonly Column<Mirror>[] {
  return [
    {
      head: "Topic",
      cell: (mirror) => (
        <span className="check">
          <input
            type="checkbox"
            aria-label={`Choose ${mirror.mirror_topic_name}`}
            disabled={!canChange(mirror)}
            checked={canChange(mirror) && names.has(mirror.mirror_topic_name)}
            onChange={() => toggle(mirror.mirror_topic_name)}
          />
          <Link href={topicPath(cluster, mirror.mirror_topic_name)}>{mirror.mirror_topic_name}</Link>
        </span>
      ),
    },
    { head: "State", cell: ({ mirror_status }) => <StatePill state={mirror_status} /> },
    { head: "Since", cell: ({ state_time_ms }) => ago(state_time_ms, now) },
    { head: "Source topic", cell: ({ source_topic_name }) => source_topic_name },
    { head: "Partitions", cell: ({ num_partitions }) => count(num_partitions), numeric: true },
    { head: "Behind", cell: (mirror) => (canChange(mirror) ? lagText(mirror) : "–"), numeric: true },
  ];
}

/** Pausing and resuming can be taken back, so they open nothing. */
function Still({ cluster, link, chosen }: { cluster: string; link: string; chosen: readonly Mirror[] }) {
  const settled = { onSettled: () => void refresh() };
  const pause = api.useMutation("post", "/kafka/v3/clusters/{cluster_id}/links/{link_name}/mirrors:pause", settled);
  const resume = api.useMutation("post", "/kafka/v3/clusters/{cluster_id}/links/{link_name}/mirrors:resume", settled);
  const request = {
    params: { path: { cluster_id: cluster, link_name: link } },
    body: { mirror_topic_names: chosen.map((one) => one.mirror_topic_name), mirror_topic_name_pattern: "" },
  };
  const refused = [...(pause.data?.data ?? []), ...(resume.data?.data ?? [])].find(({ error_code }) => error_code !== null);
  const error = pause.error ?? resume.error ?? (refused && { error_code: refused.error_code, message: refused.error_message });
  return (
    <>
      {error && <ProblemNote error={error} />}
      <button type="button" disabled={chosen.length === 0} onClick={() => [resume.reset(), pause.mutate(request)]}>
        Pause
      </button>
      <button type="button" disabled={chosen.length === 0} onClick={() => [pause.reset(), resume.mutate(request)]}>
        Resume
      </button>
    </>
  );
}
