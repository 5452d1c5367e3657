// Who changed what, when, and what came of it.
import { useState } from "react";
import { api } from "../api/client";
import type { AuditEntry } from "../api/schema";
import { clock, plain } from "../logic/format";
import { PageHead } from "../ui/page-head";
import { Pill } from "../ui/pill";
import { Answer, Empty } from "../ui/states";
import { Table } from "../ui/table";

export default function Audit() {
  const [before, setBefore] = useState(0);
  const query = api.useQuery("get", "/api/v1/audit", { params: { query: { before } } });
  return (
    <>
      <PageHead crumbs={[["/", "Map"]]} title="Audit">
        <button type="button" onClick={() => (before === 0 ? void query.refetch() : setBefore(0))}>
          Newest
        </button>
      </PageHead>
      <section className="panel">
        <Answer of={query}>
          {({ entries, next }) => (
            <>
              <List entries={entries} />
              {next !== null && (
                <button type="button" onClick={() => setBefore(next)}>
                  Older
                </button>
              )}
            </>
          )}
        </Answer>
      </section>
    </>
  );
}

function List({ entries }: { entries: readonly AuditEntry[] }) {
  if (entries.length === 0) {
    return (
      <Empty title="Nothing was changed yet">
        <p>Every change is written here before it begins.</p>
      </Empty>
    );
  }
  return (
    <Table
      label="Audit"
      rows={entries}
      rowKey={({ entry_id }) => String(entry_id)}
      columns={[
        { head: "When", cell: ({ at_ms }) => clock(at_ms) },
        { head: "Who", cell: ({ actor, remote }) => <>{actor || "nobody known"} <span className="muted">{remote}</span></> },
        { head: "Action", cell: ({ action }) => plain(action) },
        { head: "Target", cell: ({ target }) => <code>{decoded(target)}</code> },
        { head: "Result", cell: (entry) => <Result entry={entry} /> },
      ]}
    />
  );
}

function Result({ entry: { status, message } }: { entry: AuditEntry }) {
  if (status === null) return <Pill tone="busy">not ended</Pill>;
  return (
    <>
      <Pill tone={status < 400 ? "good" : "bad"}>{status}</Pill> {message}
    </>
  );
}

/** A target may hold any bytes that somebody has sent. */
function decoded(target: string): string {
  try {
    return decodeURIComponent(target);
  } catch {
    return target;
  }
}
