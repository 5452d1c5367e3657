// A new topic, with help for its placement: the number of replicas and observers in each region.
import { type FormEvent, useState } from "react";
import { useLocation } from "wouter";
import { fetchApi, refresh } from "../api/client";
import type { Cluster } from "../api/schema";
import { readLines } from "../logic/lines";
import { topicPath } from "../logic/paths";
import { DEFAULT_POLICY, PLACEMENT, placementOf, placementSentence, type Wish } from "../logic/placement";
import { Dialog } from "../ui/dialog";
import { Field } from "../ui/field";
import { ProblemNote } from "../ui/states";

const PARTITIONS = 6;
const MIN_IN_SYNC = "min.insync.replicas";

/** One replica in each region, three at most, unless somebody says otherwise. */
const firstWishes = ({ regions }: Cluster): readonly Wish[] =>
  regions.filter(({ region }) => region !== "").map(({ region }, index) => ({ region, sync: Number(index < 3), observers: 0 }));

export function CreateTopic({ cluster, onClose }: { cluster: Cluster; onClose: () => void }) {
  const [wishes, setWishes] = useState(() => firstWishes(cluster));
  const [minInSync, setMinInSync] = useState(() => (firstWishes(cluster).length > 2 ? 2 : 1));
  const [checked, setChecked] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [, go] = useLocation();
  const placed = cluster.kind === "isthmus" && wishes.length > 0;

  const send = async (form: FormData, validateOnly: boolean): Promise<void> => {
    const { configs, wrong } = readLines(String(form.get("configs")));
    if (wrong !== null) throw { error_code: 400, message: `"${wrong}" is no config: write name=value.` };
    const placement = placed ? [{ name: PLACEMENT, value: placementOf(wishes, String(form.get("policy") ?? DEFAULT_POLICY)) }] : [];
    const name = String(form.get("name"));
    const { error: refused } = await fetchApi.POST("/kafka/v3/clusters/{cluster_id}/topics", {
      params: { path: { cluster_id: cluster.cluster_id } },
      body: {
        topic_name: name,
        partitions_count: Number(form.get("partitions")),
        ...(placed ? {} : { replication_factor: Number(form.get("replicas")) }),
        configs: [...placement, { name: MIN_IN_SYNC, value: String(minInSync) }, ...configs],
        replicas_assignments: [],
        validate_only: validateOnly,
      },
    });
    if (refused) throw refused;
    if (validateOnly) return setChecked(true);
    await refresh();
    go(topicPath(cluster.cluster_id, name));
  };
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    setError(null);
    const pressed = (event.nativeEvent as SubmitEvent).submitter?.getAttribute("value");
    send(new FormData(event.currentTarget), pressed === "check").catch(setError);
  };
  return (
    <Dialog title={`Create a topic in ${cluster.name}`} onClose={onClose}>
      <form onSubmit={submit} onChange={() => setChecked(false)}>
        <Field label="Name">
          <input name="name" required maxLength={249} pattern="[A-Za-z0-9._\-]+" autoFocus />
        </Field>
        <div className="two">
          <Field label="Partitions">
            <input name="partitions" type="number" min={1} defaultValue={PARTITIONS} required />
          </Field>
          <Field label="Least replicas in sync" hint="Writes with acks=all are refused below this.">
            <input type="number" min={1} value={minInSync} onChange={(event) => setMinInSync(Number(event.target.value))} required />
          </Field>
        </div>
        {placed ? (
          <Placement wishes={wishes} minInSync={minInSync} onChange={setWishes} />
        ) : (
          <Field label="Replicas">
            <input name="replicas" type="number" min={1} defaultValue={Math.min(3, Math.max(1, cluster.brokers.length))} required />
          </Field>
        )}
        <Field label="Other configs" hint="A line each, as in retention.ms=86400000.">
          <textarea name="configs" rows={2} />
        </Field>
        {error !== null && <ProblemNote error={error} />}
        {checked && <p className="note" role="status">The cluster would create it.</p>}
        <div className="actions">
          <button type="submit" value="check">Check only</button>
          <button type="submit" value="create" className="primary">Create</button>
        </div>
      </form>
    </Dialog>
  );
}

interface PlacementProps {
  readonly wishes: readonly Wish[];
  readonly minInSync: number;
  readonly onChange: (wishes: readonly Wish[]) => void;
}

function Placement({ wishes, minInSync, onChange }: PlacementProps) {
  const set = (region: string, change: Partial<Wish>): void =>
    onChange(wishes.map((wish) => (wish.region === region ? { ...wish, ...change } : wish)));
  return (
    <fieldset>
      <legend>Placement</legend>
      <table>
        <thead>
          <tr><th scope="col">Region</th><th scope="col">Synchronous</th><th scope="col">Observers</th></tr>
        </thead>
        <tbody>
          {wishes.map(({ region, sync, observers }) => (
            <tr key={region}>
              <th scope="row">{region}</th>
              <td><input type="number" min={0} max={99} aria-label={`Synchronous replicas in ${region}`} value={sync} onChange={(event) => set(region, { sync: Number(event.target.value) })} /></td>
              <td><input type="number" min={0} max={99} aria-label={`Observers in ${region}`} value={observers} onChange={(event) => set(region, { observers: Number(event.target.value) })} /></td>
            </tr>
          ))}
        </tbody>
      </table>
      {wishes.some(({ observers }) => observers > 0) && (
        <Field label="Observers join the replicas in sync when">
          <select name="policy">
            <option value="under-min-isr">too few are in sync to write</option>
            <option value="under-replicated">any replica is missing</option>
            <option value="leader-is-observer">an observer has become leader</option>
          </select>
        </Field>
      )}
      <p className="muted" role="status">{placementSentence(wishes, minInSync)}</p>
    </fieldset>
  );
}
