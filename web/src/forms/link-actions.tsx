// Actions on a whole link: pause, resume, delete.
import { useState } from "react";
import { useLocation } from "wouter";
import { api, refresh } from "../api/client";
import type { Link } from "../api/schema";
import { counted } from "../logic/format";
import { clusterPath } from "../logic/paths";
import { canChange } from "../logic/transition";
import { Dialog } from "../ui/dialog";
import { Field } from "../ui/field";
import { ProblemNote } from "../ui/states";

type Asked = "pause" | "delete";

export function LinkActions({ link }: { link: Link }) {
  const [asked, setAsked] = useState<Asked | null>(null);
  const paused = link.link_state === "PAUSED";
  const set = useSetPaused(link);
  const close = (): void => setAsked(null);
  return (
    <>
      {set.error !== null && asked === null && <ProblemNote error={set.error} />}
      {paused ? (
        <button type="button" disabled={set.isPending} onClick={() => set.to(false)}>
          Resume the link
        </button>
      ) : (
        <button type="button" onClick={() => setAsked("pause")}>
          Pause the link…
        </button>
      )}
      <button type="button" onClick={() => setAsked("delete")}>
        Delete the link…
      </button>
      {asked === "pause" && <Pause link={link} onClose={close} />}
      {asked === "delete" && <Delete link={link} onClose={close} />}
    </>
  );
}

function useSetPaused(link: Link, done: () => void = () => undefined) {
  const alter = api.useMutation("put", "/kafka/v3/clusters/{cluster_id}/links/{link_name}/configs/{config_name}", {
    onSuccess: () => {
      void refresh();
      done();
    },
  });
  const path = { cluster_id: link.cluster_id, link_name: link.link_name, config_name: "cluster.link.paused" };
  return { ...alter, to: (paused: boolean): void => alter.mutate({ params: { path }, body: { value: String(paused) } }) };
}

interface Props {
  readonly link: Link;
  readonly onClose: () => void;
}

function Pause({ link, onClose }: Props) {
  const set = useSetPaused(link, onClose);
  return (
    <Dialog title={`Pause ${link.link_name}`} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          set.to(true);
        }}
      >
        <p>
          Nothing of {counted(link.topic_names.length, "mirror topic")} is copied until it is resumed, and a failover meanwhile loses what was not
          copied. What is here can be read all the while, and a resumed link goes on where it stopped.
        </p>
        {set.error !== null && <ProblemNote error={set.error} />}
        <div className="actions">
          <button type="submit" className="primary" disabled={set.isPending}>
            Pause
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Delete({ link, onClose }: Props) {
  const [typed, setTyped] = useState("");
  const [failover, setFailover] = useState(false);
  const [, go] = useLocation();
  const path = { cluster_id: link.cluster_id, link_name: link.link_name };
  const mirrors = api.useQuery("get", "/kafka/v3/clusters/{cluster_id}/links/{link_name}/mirrors", { params: { path } });
  const copied = mirrors.data?.data.filter(canChange).length;
  const remove = api.useMutation("delete", "/kafka/v3/clusters/{cluster_id}/links/{link_name}", {
    onSuccess: () => {
      go(clusterPath(link.cluster_id, "links"));
      void refresh();
    },
  });
  const ready = typed === link.link_name && copied !== undefined && (copied === 0 || failover);
  return (
    <Dialog title={`Delete ${link.link_name}`} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          remove.mutate({ params: { path, query: { force: failover } } });
        }}
      >
        <p>The link ends, and cannot be brought back. Its topics stay with all that they hold, and take writes.</p>
        {mirrors.error !== null && <ProblemNote error={mirrors.error} />}
        {copied !== undefined && copied > 0 && (
          <label className="check">
            <input type="checkbox" checked={failover} onChange={(event) => setFailover(event.target.checked)} />
            Fail over {counted(copied, "topic")} that {copied === 1 ? "is" : "are"} still copied: what the source has and this cluster has not stays
            behind
          </label>
        )}
        <Field label={`Type ${link.link_name} to continue`}>
          <input value={typed} onChange={(event) => setTyped(event.target.value)} autoComplete="off" />
        </Field>
        {remove.error !== null && <ProblemNote error={remove.error} />}
        <div className="actions">
          <button type="submit" className="danger" disabled={!ready || remove.isPending}>
            Delete it
          </button>
        </div>
      </form>
    </Dialog>
  );
}
