// A plan's brokers before and after, side by side and on one scale.
import type { Plan } from "../api/schema";

interface Pair {
  readonly before: number;
  readonly after: number;
  /** The highest of all brokers, before or after. */
  readonly most: number;
}

export interface BrokerChange {
  readonly broker: number;
  readonly rack: string;
  readonly replicas: Pair;
  readonly leaders: Pair;
  readonly disk: Pair;
  readonly network: Pair;
}

type Load = Plan["before"][number];
type Amount = "replicas" | "leaders" | "disk" | "network_out";

export function brokerChanges({ before, after }: Plan): readonly BrokerChange[] {
  const later = new Map(after.map((load) => [load.broker, load]));
  const most = (amount: Amount): number => Math.max(0, ...[...before, ...after].map((load) => load[amount]));
  const pair = (load: Load, amount: Amount): Pair => ({
    before: load[amount],
    after: later.get(load.broker)?.[amount] ?? 0,
    most: most(amount),
  });
  return before.map((load) => ({
    broker: load.broker,
    rack: load.rack,
    replicas: pair(load, "replicas"),
    leaders: pair(load, "leaders"),
    disk: pair(load, "disk"),
    network: pair(load, "network_out"),
  }));
}
