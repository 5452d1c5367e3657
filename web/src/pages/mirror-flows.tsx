// What mirrors tell in a cluster: that they are alive, and which offsets belong together.
import { api, live } from "../api/client";
import type { Cluster } from "../api/schema";
import { ago, count, counted } from "../logic/format";
import { Answer, Empty } from "../ui/states";
import { Table } from "../ui/table";
import { useNow } from "../ui/use-now";

export default function MirrorFlows({ cluster }: { cluster: Cluster }) {
  const now = useNow();
  const path = { cluster_id: cluster.cluster_id };
  const asked = api.useQuery("get", "/api/v1/clusters/{cluster_id}/mirror-flows", { params: { path } }, live);
  return (
    <section className="panel">
      <h2>Mirrors into {cluster.name}</h2>
      <Answer of={asked}>
        {({ heartbeats, checkpoints, offset_syncs }) =>
          heartbeats.length + checkpoints.length + offset_syncs.length === 0 ? (
            <Empty title="No mirror copies into this cluster">
              <p>Start one with isthmus mirror and the settings of a MirrorMaker.</p>
            </Empty>
          ) : (
            <>
              <Table
                label="Heartbeats"
                rows={heartbeats}
                rowKey={(one) => `${one.source} ${one.target}`}
                columns={[
                  { head: "From", cell: ({ source }) => source },
                  { head: "To", cell: ({ target }) => target },
                  { head: "Last heard", cell: ({ at_ms }) => ago(at_ms, now), numeric: true },
                ]}
              />
              {checkpoints.map(({ source, topic_name, checkpoints: rows }) => (
                <section key={topic_name}>
                  <h3>Groups of {source} <span className="muted">{counted(rows.length, "checkpoint")}</span></h3>
                  <Table
                    label={`Checkpoints from ${source}`}
                    rows={rows}
                    rowKey={(one) => `${one.group} ${one.topic} ${one.partition}`}
                    columns={[
                      { head: "Group", cell: ({ group }) => group },
                      { head: "Topic", cell: ({ topic }) => topic },
                      { head: "Partition", cell: ({ partition }) => partition, numeric: true },
                      { head: "There", cell: ({ upstream_offset }) => count(upstream_offset), numeric: true },
                      { head: "Here", cell: ({ offset }) => count(offset), numeric: true },
                    ]}
                  />
                </section>
              ))}
              {offset_syncs.map(({ other, offset_syncs: rows }) => (
                <p key={other} className="muted">Offsets in step with {other}: {counted(rows.length, "partition")}.</p>
              ))}
            </>
          )
        }
      </Answer>
    </section>
  );
}
