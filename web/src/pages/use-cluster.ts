// The cluster that a page is about, as it was last seen.
import { useParams } from "wouter";
import { useFeed } from "../api/feed";
import type { Cluster, Topology } from "../api/schema";

export function useCluster(): { id: string; cluster: Cluster | undefined; topology: Topology | null } {
  const { cluster: id = "" } = useParams();
  const { topology } = useFeed();
  return { id, topology, cluster: topology?.clusters.find(({ cluster_id }) => cluster_id === id) };
}
