// The guided way to promote mirror topics or to fail them over: what happens, a check, a confirmation, progress.
import { useEffect, useState } from "react";
import { api, refresh } from "../api/client";
import type { AlteredMirror, Mirror } from "../api/schema";
import { lagRecords } from "../logic/format";
import { latest } from "../logic/series";
import { type Transition, WORDS, lagText, lossNow, typedName } from "../logic/transition";
import { TaskProgress } from "../pages/task-progress";
import { Dialog } from "../ui/dialog";
import { Field } from "../ui/field";
import { Pill } from "../ui/pill";
import { Loading, ProblemNote } from "../ui/states";
import { Table } from "../ui/table";
import { useNow } from "../ui/use-now";

interface Props {
  readonly cluster: string;
  readonly link: string;
  readonly mirrors: readonly Mirror[];
  readonly transition: Transition;
  readonly onClose: () => void;
}

export function TransitionDialog(props: Props) {
  const { cluster, mirrors, transition, onClose } = props;
  const begin = api.useMutation("post", "/api/v1/tasks");
  const topics = mirrors.map(({ mirror_topic_name }) => mirror_topic_name);
  const title = `${WORDS[transition].title} ${topics.length === 1 ? topics[0] : `${topics.length} topics`}`;
  const close = (): void => {
    void refresh();
    onClose();
  };
  return (
    <Dialog title={title} onClose={close}>
      {begin.data === undefined ? (
        <Consider
          {...props}
          error={begin.error}
          busy={begin.isPending}
          onBegin={() => begin.mutate({ body: { kind: "alter-mirrors", cluster_id: cluster, action: transition, topics } })}
        />
      ) : (
        <TaskProgress task={begin.data} />
      )}
    </Dialog>
  );
}

interface ConsiderProps extends Props {
  readonly error: unknown;
  readonly busy: boolean;
  readonly onBegin: () => void;
}

function Consider({ cluster, link, mirrors, transition, error, busy, onBegin }: ConsiderProps) {
  const [typed, setTyped] = useState("");
  const check = useCheck(cluster, link, mirrors, transition);
  const words = WORDS[transition];
  const name = typedName(mirrors.map(({ mirror_topic_name }) => mirror_topic_name), link);
  const refused = check.data?.data.filter(({ error_code }) => error_code !== null) ?? [];
  const ready = check.data !== undefined && refused.length === 0 && (transition === "promote" || typed === name);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onBegin();
      }}
    >
      <ul className="steps">
        {words.steps.map((step) => (
          <li key={step}>{step}</li>
        ))}
      </ul>
      <Loss cluster={cluster} link={link} mirrors={mirrors} />
      {check.error !== null && <ProblemNote error={check.error} />}
      {check.isPending ? <Loading /> : check.data && <Checked mirrors={mirrors} results={check.data.data} />}
      {transition === "failover" && (
        <Field label={`Type ${name} to continue`}>
          <input value={typed} onChange={(event) => setTyped(event.target.value)} autoComplete="off" />
        </Field>
      )}
      {error !== null && <ProblemNote error={error} />}
      <div className="actions">
        <button type="button" onClick={check.again}>
          Check again
        </button>
        <button type="submit" className={transition === "failover" ? "danger" : "primary"} disabled={!ready || busy}>
          {words.button}
        </button>
      </div>
    </form>
  );
}

/** The destination is asked what it would do; nothing is changed by that. */
function useCheck(cluster: string, link: string, mirrors: readonly Mirror[], transition: Transition) {
  const promote = api.useMutation("post", "/kafka/v3/clusters/{cluster_id}/links/{link_name}/mirrors:promote");
  const failover = api.useMutation("post", "/kafka/v3/clusters/{cluster_id}/links/{link_name}/mirrors:failover");
  const asked = transition === "promote" ? promote : failover;
  const again = (): void =>
    asked.mutate({
      params: { path: { cluster_id: cluster, link_name: link }, query: { validate_only: true } },
      body: { mirror_topic_names: mirrors.map(({ mirror_topic_name }) => mirror_topic_name), mirror_topic_name_pattern: "" },
    });
  useEffect(again, []); // once, as the dialog opens
  return { data: asked.data, error: asked.error, isPending: asked.isPending, again };
}

function Loss({ cluster, link, mirrors }: Pick<Props, "cluster" | "link" | "mirrors">) {
  const now = useNow();
  const topics = new Set(mirrors.map(({ mirror_topic_name }) => mirror_topic_name));
  const query = { by: "topic", kind: "link", link, cluster_id: cluster } as const;
  const asked = api.useQuery("get", "/api/v1/lag", { params: { query } }, { refetchInterval: 2_000 });
  const sampled = latest((asked.data?.series ?? []).filter(({ topic }) => topics.has(topic)));
  return (
    <p className="note" role="status">
      <strong>Now:</strong> {lossNow(mirrors, sampled, now)}
    </p>
  );
}

function Checked({ mirrors, results }: { mirrors: readonly Mirror[]; results: readonly AlteredMirror[] }) {
  const sources = new Map(mirrors.map((mirror) => [mirror.mirror_topic_name, mirror]));
  return (
    <Table
      label="What the cluster says to it"
      rows={results}
      rowKey={({ mirror_topic_name }) => mirror_topic_name}
      columns={[
        { head: "Topic", cell: ({ mirror_topic_name }) => mirror_topic_name },
        { head: "Missing", cell: ({ mirror_topic_name }) => missing(sources.get(mirror_topic_name)), numeric: true },
        {
          head: "Check",
          cell: ({ error_code, error_message }) =>
            error_code === null ? <Pill tone="good">can be done</Pill> : <span className="text-bad">{error_message}</span>,
        },
      ]}
    />
  );
}

const missing = (mirror: Mirror | undefined): string => (mirror === undefined ? lagRecords(null) : lagText(mirror));
