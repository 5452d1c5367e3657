// A topic's placement from how many replicas each region shall have, as Confluent's JSON of version 2.

export interface Wish {
  readonly region: string;
  readonly sync: number;
  readonly observers: number;
}

interface Constraint {
  readonly count: number;
  readonly constraints: { readonly region: string };
}

export const PLACEMENT = "isthmus.placement.constraints";
export const DEFAULT_POLICY = "under-min-isr";

const constraints = (wishes: readonly Wish[], count: (wish: Wish) => number): readonly Constraint[] =>
  wishes.filter((wish) => count(wish) > 0).map((wish) => ({ count: count(wish), constraints: { region: wish.region } }));

export function placementOf(wishes: readonly Wish[], policy: string): string {
  const replicas = constraints(wishes, ({ sync }) => sync);
  const observers = constraints(wishes, (wish) => wish.observers);
  const promoting = observers.length > 0 ? { observers, observerPromotionPolicy: policy } : {};
  return JSON.stringify({ version: 2, replicas, ...promoting });
}

/** In plain words what the wishes come to. */
export function placementSentence(wishes: readonly Wish[], minInSync: number): string {
  const sync = total(wishes, ({ sync }) => sync);
  const observers = total(wishes, (wish) => wish.observers);
  const regions = wishes.filter((wish) => wish.sync > 0).length;
  if (sync === 0) return "Give at least one region a synchronous replica.";
  const survives = sync - minInSync;
  const losses =
    survives < 0
      ? `Nothing can be written: min.insync.replicas is ${minInSync}, and there are ${sync} synchronous replicas.`
      : `Writes continue while ${survives === 0 ? "none" : survives} of ${sync} synchronous replicas ${survives === 1 ? "is" : "are"} down.`;
  const far = observers > 0 ? ` ${observers} ${observers === 1 ? "observer copies" : "observers copy"} without slowing down writes.` : "";
  return `${sync} synchronous ${sync === 1 ? "replica" : "replicas"} in ${regions} ${regions === 1 ? "region" : "regions"}. ${losses}${far}`;
}

const total = (wishes: readonly Wish[], count: (wish: Wish) => number): number =>
  wishes.reduce((sum, wish) => sum + count(wish), 0);
