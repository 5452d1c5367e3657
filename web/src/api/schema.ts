// Short names for the shapes that the OpenAPI document describes.
import type { components, paths } from "../generated/api";

export type { paths };
type Schemas = components["schemas"];

export type Topology = Schemas["TopologyDocument"];
export type Region = Schemas["RegionOnMap"];
export type Cluster = Schemas["ClusterOnMap"];
export type Broker = Schemas["BrokerOnMap"];
export type Flow = Schemas["Flow"];
export type ReplicaStatus = Schemas["ReplicaStatusData"];
export type TopicReplicas = Schemas["TopicReplicas"];
export type PartitionPlaces = Schemas["PartitionPlaces"];
export type ReplicaPlace = Schemas["ReplicaPlace"];
export type Link = Schemas["LinkData"];
export type Mirror = Schemas["MirrorData"];
export type AlteredMirror = Schemas["AlteredMirrorData"];
export type MirrorFlows = Schemas["MirrorFlows"];
export type LagSeries = Schemas["LagSeries"];
export type GroupLag = Schemas["LagData"];
export type Subtopology = Schemas["SubtopologyData"];
export type StreamsMember = Schemas["StreamsMemberData"];
export type MemberTasks = Schemas["MemberTasks"];
export type Task = Schemas["TaskData"];
export type Plan = Schemas["PlanData"];
export type AuditEntry = Schemas["AuditEntry"];
export type TopicData = Schemas["TopicData"];

/** What every list of configs has in common. */
export interface Config {
  readonly name: string;
  readonly value: string | null;
  readonly source: string;
  readonly is_read_only: boolean;
  readonly is_sensitive: boolean;
}
