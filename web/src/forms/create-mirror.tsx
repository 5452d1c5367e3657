// A new mirror topic: one of the source's topics, when the source is registered here.
import { type FormEvent, useId, useState } from "react";
import { api, fetchApi, refresh } from "../api/client";
import { useFeed } from "../api/feed";
import type { Link } from "../api/schema";
import { isInternal } from "../logic/matrix";
import { problemText } from "../logic/problem";
import { Dialog } from "../ui/dialog";
import { Field } from "../ui/field";

export function CreateMirror({ link, onClose }: { link: Link; onClose: () => void }) {
  const [error, setError] = useState<unknown>(null);
  const list = useId();
  const topics = useSourceTopics(link);
  const send = async (form: FormData): Promise<void> => {
    const replicas = Number(form.get("replicas"));
    const { error: refused } = await fetchApi.POST("/kafka/v3/clusters/{cluster_id}/links/{link_name}/mirrors", {
      params: { path: { cluster_id: link.cluster_id, link_name: link.link_name } },
      body: {
        source_topic_name: String(form.get("topic")),
        ...(replicas > 0 ? { replication_factor: replicas } : {}),
        configs: [],
      },
    });
    if (refused) throw refused;
    await refresh();
    onClose();
  };
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    setError(null);
    send(new FormData(event.currentTarget)).catch(setError);
  };
  const told = error === null ? undefined : problemText(error);
  const ofReplicas = told !== undefined && /replica/i.test(told);
  return (
    <Dialog title={`Mirror a topic through ${link.link_name}`} onClose={onClose}>
      <form onSubmit={submit}>
        <Field label="Topic of the source" hint="The copy has the same name, behind the link's prefix if it has one." error={ofReplicas ? undefined : told}>
          <input name="topic" list={list} required maxLength={249} autoFocus autoComplete="off" />
        </Field>
        <datalist id={list}>
          {topics.map((topic) => (
            <option key={topic} value={topic} />
          ))}
        </datalist>
        <Field label="Replicas" hint="Left empty, as many as this cluster gives by default." error={ofReplicas ? told : undefined}>
          <input name="replicas" type="number" min={1} />
        </Field>
        <div className="actions">
          <button type="submit" className="primary">Mirror it</button>
        </div>
      </form>
    </Dialog>
  );
}

function useSourceTopics(link: Link): readonly string[] {
  const { topology } = useFeed();
  const known = topology?.clusters.some(({ cluster_id }) => cluster_id === link.source_cluster_id) ?? false;
  const path = { cluster_id: link.source_cluster_id };
  const asked = api.useQuery("get", "/kafka/v3/clusters/{cluster_id}/topics", { params: { path } }, { enabled: known });
  const mirrored = new Set(link.topic_names);
  return (asked.data?.data ?? []).map(({ topic_name }) => topic_name).filter((topic) => !isInternal(topic) && !mirrored.has(topic));
}
