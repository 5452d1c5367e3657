// A cluster: its brokers by region, topics, groups, and the links that copy into it.
import { lazy, Suspense } from "react";
import { Link, useParams } from "wouter";
import type { Cluster } from "../api/schema";
import { ago, count, sentence } from "../logic/format";
import { clusterPath } from "../logic/paths";
import { Facts, PageHead } from "../ui/page-head";
import { StatePill } from "../ui/pill";
import { Empty, Loading } from "../ui/states";
import { useNow } from "../ui/use-now";
import { Brokers } from "./brokers";
import { Health } from "./clusters";
import { Topics } from "./topics";
import { useCluster } from "./use-cluster";

const Groups = lazy(() => import("./groups"));
const Balancer = lazy(() => import("./balancer"));
const Links = lazy(() => import("./links"));
const MirrorFlows = lazy(() => import("./mirror-flows"));

const TABS = { "": "Topics", brokers: "Brokers", groups: "Groups", links: "Links", mirrors: "Mirrors", balancer: "Balancer" } as const;
type Tab = keyof typeof TABS;

/** Links are made by Isthmus clusters alone; mirrors copy into any. */
const tabsOf = ({ kind }: Cluster): readonly Tab[] =>
  kind === "isthmus" ? ["", "brokers", "groups", "links", "mirrors", "balancer"] : ["", "brokers", "groups", "mirrors", "balancer"];

export default function ClusterPage() {
  const { tab = "" } = useParams();
  const { id, cluster, topology } = useCluster();
  if (topology === null) return <Loading />;
  if (cluster === undefined) {
    return (
      <Empty title="This cluster is not registered">
        <p>
          See the <Link href="/clusters">clusters that are</Link>.
        </p>
      </Empty>
    );
  }
  return (
    <>
      <PageHead crumbs={[["/", "Map"], ["/clusters", "Clusters"]]} title={cluster.name}>
        <Health cluster={cluster} />
      </PageHead>
      <Overview cluster={cluster} />
      <nav className="tabs" aria-label="Parts of the cluster">
        {tabsOf(cluster).map((one) => (
          <Link key={one} href={clusterPath(id, one)} className={one === tab ? "here" : ""} aria-current={one === tab ? "page" : undefined}>
            {TABS[one]}
          </Link>
        ))}
      </nav>
      <Suspense fallback={<Loading />}>
        {tab === "" && <Topics cluster={cluster} />}
        {tab === "brokers" && <Brokers cluster={cluster} />}
        {tab === "groups" && <Groups cluster={cluster} />}
        {tab === "links" && <Links cluster={cluster} />}
        {tab === "balancer" && <Balancer cluster={cluster} />}
        {tab === "mirrors" && <MirrorFlows cluster={cluster} />}
      </Suspense>
    </>
  );
}

function Overview({ cluster }: { cluster: Cluster }) {
  const now = useNow();
  return (
    <section className="panel">
      {cluster.message !== "" && (
        <p className="problem" role="alert">
          {sentence(cluster.message)} Shown is the state {cluster.updated_ms === null ? "before" : ago(cluster.updated_ms, now)}.
        </p>
      )}
      {cluster.partial && <p className="note">It has more partitions than are counted here: observers are known for a part of them.</p>}
      <Facts
        of={[
          ["State", <StatePill key="state" state={cluster.state} />],
          ["Kind", cluster.kind === "isthmus" ? "Isthmus" : "Apache Kafka"],
          ["Brokers", count(cluster.brokers.length)],
          ["Topics", count(cluster.topics)],
          ["Partitions", count(cluster.partitions)],
          ["Under-replicated", count(cluster.under_replicated)],
          ["Controller", cluster.controller_id < 0 ? "none" : `broker ${cluster.controller_id}`],
          ["Id", <code key="id">{cluster.cluster_id}</code>],
        ]}
      />
    </section>
  );
}
