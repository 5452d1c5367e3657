// Deleting a topic takes its name, typed.
import { useState } from "react";
import { useLocation } from "wouter";
import { api, refresh } from "../api/client";
import { clusterPath } from "../logic/paths";
import { Dialog } from "../ui/dialog";
import { Field } from "../ui/field";
import { ProblemNote } from "../ui/states";

export function DeleteTopic({ cluster, topic }: { cluster: string; topic: string }) {
  const [open, setOpen] = useState(false);
  const [typed, setTyped] = useState("");
  const [, go] = useLocation();
  const remove = api.useMutation("delete", "/kafka/v3/clusters/{cluster_id}/topics/{topic_name}", {
    onSuccess: () => {
      void refresh();
      go(clusterPath(cluster));
    },
  });
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        Delete
      </button>
      {open && (
        <Dialog title={`Delete ${topic}`} onClose={() => setOpen(false)}>
          <form
            onSubmit={(event) => {
              event.preventDefault();
              remove.mutate({ params: { path: { cluster_id: cluster, topic_name: topic } } });
            }}
          >
            <p>The topic and all of its records are deleted, in every region. They cannot be restored.</p>
            <Field label={`Type ${topic} to continue`}>
              <input value={typed} onChange={(event) => setTyped(event.target.value)} autoComplete="off" />
            </Field>
            {remove.error !== null && <ProblemNote error={remove.error} />}
            <div className="actions">
              <button type="submit" className="danger" disabled={typed !== topic || remove.isPending}>
                Delete it
              </button>
            </div>
          </form>
        </Dialog>
      )}
    </>
  );
}
