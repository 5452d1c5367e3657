// A new link into a cluster: from a registered cluster, or from any other by its brokers.
import { type FormEvent, useState } from "react";
import { useLocation } from "wouter";
import { api, fetchApi, refresh } from "../api/client";
import type { Cluster } from "../api/schema";
import { type Line, readLines } from "../logic/lines";
import { EVERY_GROUP, EVERY_TOPIC, fieldOf, LINK_SETTINGS, type LinkField, type LinkSetting } from "../logic/link-form";
import { linkPath } from "../logic/paths";
import { problemText } from "../logic/problem";
import { Dialog } from "../ui/dialog";
import { Field } from "../ui/field";
import { ProblemNote } from "../ui/states";

export function CreateLink({ cluster, onClose }: { cluster: Cluster; onClose: () => void }) {
  const [checked, setChecked] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [source, setSource] = useState("");
  const [, go] = useLocation();

  const send = async (form: FormData, validateOnly: boolean): Promise<void> => {
    const name = String(form.get("name"));
    const { error: refused } = await fetchApi.POST("/kafka/v3/clusters/{cluster_id}/links", {
      params: { path: { cluster_id: cluster.cluster_id }, query: { link_name: name, validate_only: validateOnly } },
      body: { ...(source === "" ? {} : { source_cluster_id: source }), configs: [...configsOf(form)] },
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
  const field = error === null ? null : fieldOf(problemText(error));
  const wrong = (name: string): string | undefined => (field === name ? problemText(error) : undefined);
  return (
    <Dialog title={`Create a link into ${cluster.name}`} onClose={onClose}>
      <form onSubmit={submit} onChange={() => setChecked(false)}>
        <p className="muted">It copies topics of the source here, with their offsets. Clients cannot write to the copies until they are promoted.</p>
        <Field label="Name" error={wrong("name" satisfies LinkField)}>
          <input name="name" required maxLength={200} autoFocus autoComplete="off" />
        </Field>
        <Source cluster={cluster} source={source} choose={setSource} error={wrong("bootstrap.servers" satisfies LinkField)} />
        <label className="check">
          <input type="checkbox" name="groups" defaultChecked /> Keep the offsets of all consumer groups in step, so that they can continue here
        </label>
        <label className="check">
          <input type="checkbox" name="topics" /> Mirror every topic of the source, also those that it will get
        </label>
        <Settings wrong={wrong} />
        {error !== null && field === null && <ProblemNote error={error} />}
        {checked && <p className="note" role="status">The source is reachable, and the link can be created.</p>}
        <div className="actions">
          <button type="submit" value="check">Check only</button>
          <button type="submit" value="create" className="primary">Create</button>
        </div>
      </form>
    </Dialog>
  );
}

/** What the form says; throws for a line that is no config. */
function configsOf(form: FormData): readonly Line[] {
  const { configs, wrong } = readLines(String(form.get("configs")));
  if (wrong !== null) throw { error_code: 400, message: `"${wrong}" is no config: write name=value.` };
  return [
    { name: "bootstrap.servers", value: String(form.get("bootstrap")) },
    ...(form.has("groups") ? EVERY_GROUP : []),
    ...(form.has("topics") ? EVERY_TOPIC : []),
    ...LINK_SETTINGS.map(({ name }) => ({ name, value: String(form.get(name)).trim() })).filter(({ value }) => value !== ""),
    ...configs,
  ];
}

interface SourceProps {
  readonly cluster: Cluster;
  readonly source: string;
  readonly choose: (clusterId: string) => void;
  readonly error: string | undefined;
}

function Source({ cluster, source, choose, error }: SourceProps) {
  const registered = api.useQuery("get", "/api/v1/clusters");
  const others = (registered.data?.clusters ?? []).filter(({ cluster_id }) => cluster_id !== cluster.cluster_id);
  const known = others.find(({ cluster_id }) => cluster_id === source);
  return (
    <>
      <Field label="Source">
        <select value={source} onChange={(event) => choose(event.target.value)}>
          <option value="">another cluster, by its brokers</option>
          {others.map(({ cluster_id, name }) => (
            <option key={cluster_id} value={cluster_id}>{name}</option>
          ))}
        </select>
      </Field>
      <Field label="Bootstrap servers of the source" hint={`As brokers of ${cluster.name} reach them: host:port, with commas.`} error={error}>
        <input key={source} name="bootstrap" required defaultValue={known?.bootstrap_servers ?? ""} autoComplete="off" />
      </Field>
    </>
  );
}

function Settings({ wrong }: { wrong: (name: string) => string | undefined }) {
  const inside = [...LINK_SETTINGS.map(({ name }) => name), "configs" satisfies LinkField];
  const [opened, setOpened] = useState(false);
  // An error must not hide behind a fold.
  const open = opened || inside.some((name) => wrong(name) !== undefined);
  return (
    <details open={open} onToggle={(event) => setOpened(event.currentTarget.open)}>
      <summary>More settings</summary>
      <div className="folded">
        {LINK_SETTINGS.map((setting) => (
          <Setting key={setting.name} setting={setting} error={wrong(setting.name)} />
        ))}
        <Field label="Other configs" hint="A line each, as in replica.fetch.max.bytes=1048576." error={wrong("configs" satisfies LinkField)}>
          <textarea name="configs" rows={2} />
        </Field>
      </div>
    </details>
  );
}

const Setting = ({ setting, error }: { setting: LinkSetting; error: string | undefined }) => (
  <Field label={setting.label} hint={setting.hint} error={error}>
    <input name={setting.name} placeholder={setting.usual} inputMode={setting.numeric ? "numeric" : "text"} autoComplete="off" />
  </Field>
);
