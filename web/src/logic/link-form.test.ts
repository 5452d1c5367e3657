import { expect, test } from "vitest";
import { fieldOf } from "./link-form";

test.each([
  ["Invalid value far too long a prefix for configuration cluster.link.prefix: it must be at most 12 characters", "cluster.link.prefix"],
  ["Invalid value 1 for configuration consumer.offset.sync.ms: Value must be at least 1000", "consumer.offset.sync.ms"],
  ["Link name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", "name"],
  ["Link 'from-source' already exists.", "name"],
  ["Invalid value nonsense for configuration bootstrap.servers: it must name brokers of the source", "bootstrap.servers"],
  ["The source cannot be queried at 127.0.0.1:1: no broker can be reached", "bootstrap.servers"],
  ["The source is cluster abc, which is this one; a cluster is not linked to itself.", "bootstrap.servers"],
  ["Unknown link config name: no.such", "configs"],
  ["Cluster copy is unreachable: none of its brokers is reachable", null],
])("the field of: %s", (message, field) => {
  expect(fieldOf(message)).toBe(field);
});
