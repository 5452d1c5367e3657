// A new link into a cluster: from a registered cluster, or from any other by its brokers.
import { type FormEvent, useState } from "react";
import { useLocation } from "wouter";
import { api, fetchApi, refresh } from "../api/client";
import type { Cluster } from "../api/schema";
import { readLines } from "../logic/lines";
import { linkPath } from "../logic/paths";
import { Dialog } from "../ui/dialog";
import { Field } from "../ui/field";
import { ProblemNote } from "../ui/states";

export function CreateLink({ cluster, onClose }: { cluster: Cluster; onClose: () => void }) {
  const [source, setSource] = useState("");
  const [checked, setChecked] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [, go] = useLocation();
  const registered = api.useQuery("get", "/api/v1/clusters");
  const others = (registered.data?.clusters ?? []).filter(({ cluster_id }) => cluster_id !== cluster.cluster_id);
  const known = others.find(({ cluster_id }) => cluster_id === source);

  const send = async (form: FormData, validateOnly: boolean): Promise<void> => {
    const { configs, wrong } = readLines(String(form.get("configs")));
    if (wrong !== null) throw { error_code: 400, message: `"${wrong}" is no config: write name=value.` };
    const name = String(form.get("name"));
    const groups = form.has("groups") ? [...GROUPS] : [];
    const { error: refused } = await fetchApi.POST("/kafka/v3/clusters/{cluster_id}/links", {
      params: { path: { cluster_id: cluster.cluster_id }, query: { link_name: name, validate_only: validateOnly } },
      body: {
        ...(source === "" ? {} : { source_cluster_id: source }),
        configs: [{ name: "bootstrap.servers", value: String(form.get("bootstrap")) }, ...groups, ...configs],
      },
    });
    if (refused) throw refused;
    if (validateOnly) return setChecked(true);
    await refresh();
    go(linkPath(cluster.cluster_id, name));
  };
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    setError(null);
    const pressed = (event.nativeEvent as SubmitEvent).submitter?.getAttribute("value");
    send(new FormData(event.currentTarget), pressed === "check").catch(setError);
  };
  return (
    <Dialog title={`Create a link into ${cluster.name}`} onClose={onClose}>
      <form onSubmit={submit} onChange={() => setChecked(false)}>
        <p className="muted">It copies topics of the source here, with their offsets. Clients cannot write to the copies until they are promoted.</p>
        <Field label="Name">
          <input name="name" required maxLength={200} autoFocus />
        </Field>
        <Field label="Source">
          <select value={source} onChange={(event) => setSource(event.target.value)}>
            <option value="">another cluster, by its brokers</option>
            {others.map(({ cluster_id, name }) => (
              <option key={cluster_id} value={cluster_id}>{name}</option>
            ))}
          </select>
        </Field>
        <Field label="Bootstrap servers of the source" hint={`As brokers of ${cluster.name} reach them.`}>
          <input key={source} name="bootstrap" required defaultValue={known?.bootstrap_servers ?? ""} />
        </Field>
        <label className="check">
          <input type="checkbox" name="groups" defaultChecked /> Keep the offsets of all consumer groups in step, so that they can go on here
        </label>
        <Field label="Other configs" hint="A line each, as in cluster.link.prefix=eu.">
          <textarea name="configs" rows={2} />
        </Field>
        {error !== null && <ProblemNote error={error} />}
        {checked && <p className="note" role="status">The source was asked, and the link can be made.</p>}
        <div className="actions">
          <button type="submit" value="check">Check only</button>
          <button type="submit" value="create" className="primary">Create</button>
        </div>
      </form>
    </Dialog>
  );
}

const EVERY_GROUP = { groupFilters: [{ name: "*", patternType: "LITERAL", filterType: "INCLUDE" }] };
const GROUPS = [
  { name: "consumer.offset.sync.enable", value: "true" },
  { name: "consumer.offset.group.filters", value: JSON.stringify(EVERY_GROUP) },
] as const;
