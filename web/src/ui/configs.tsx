// Configs, those that were set first; each value can be changed or reset.
import { useState } from "react";
import type { Config } from "../api/schema";
import { ProblemNote } from "./states";
import { Table } from "./table";

interface Props {
  readonly configs: readonly Config[];
  /** Sets a value; null takes it back to the default. */
  readonly change: (name: string, value: string | null) => Promise<unknown>;
}

const isDefault = ({ source }: Config): boolean => !source.startsWith("DYNAMIC_TOPIC") && !source.startsWith("DYNAMIC_CLUSTER_LINK");

export function Configs({ configs, change }: Props) {
  const [wanted, setWanted] = useState("");
  const [all, setAll] = useState(false);
  const rows = configs
    .filter((config) => config.name.includes(wanted.trim()) && (all || wanted !== "" || !isDefault(config)))
    .toSorted((one, other) => Number(isDefault(one)) - Number(isDefault(other)) || one.name.localeCompare(other.name));
  return (
    <section className="panel">
      <div className="bar">
        <h2>Configs</h2>
        <label>
          <input type="checkbox" checked={all} onChange={(event) => setAll(event.target.checked)} /> defaults
        </label>
        <input type="search" aria-label="Search configs" placeholder="Search configs" value={wanted} onChange={(event) => setWanted(event.target.value)} />
      </div>
      {rows.length === 0 && <p className="muted">Nothing is set here: all {configs.length} configs have their defaults.</p>}
      <Table
        label="Configs"
        shape="stack"
        rows={rows}
        rowKey={({ name }) => name}
        columns={[
          { head: "Config", cell: ({ name }) => <code className="whole">{name}</code> },
          { head: "Value", cell: (config) => <Value key={config.value} config={config} change={change} /> },
          { head: "From", cell: (config) => (isDefault(config) ? <span className="muted">default</span> : "set here") },
        ]}
      />
    </section>
  );
}

function Value({ config, change }: { config: Config } & Pick<Props, "change">) {
  const [editing, setEditing] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const give = (value: string | null): void => {
    change(config.name, value).then(() => setEditing(false), setError);
  };
  if (!editing) {
    return (
      <span className="value">
        <code>{config.is_sensitive ? "hidden" : config.value || "empty"}</code>
        {!config.is_read_only && (
          <button type="button" className="plain" aria-label={`Change ${config.name}`} onClick={() => setEditing(true)}>
            Change
          </button>
        )}
      </span>
    );
  }
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        give(String(new FormData(event.currentTarget).get("value")));
      }}
    >
      <input name="value" aria-label={config.name} defaultValue={config.value ?? ""} autoFocus />
      {error !== null && <ProblemNote error={error} />}
      <div className="actions">
        <button type="button" className="plain" onClick={() => setEditing(false)}>
          Leave it
        </button>
        {!isDefault(config) && (
          <button type="button" onClick={() => give(null)}>
            Default
          </button>
        )}
        <button type="submit" className="primary">
          Set
        </button>
      </div>
    </form>
  );
}
