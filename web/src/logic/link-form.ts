// A link's settings as its form has them, and the field that an error is about.
import type { Line } from "./lines";

export interface LinkSetting {
  readonly name: string;
  readonly label: string;
  readonly hint: string;
  /** What counts when the field is left empty. */
  readonly usual: string;
  readonly numeric?: boolean;
}

export const LINK_SETTINGS: readonly LinkSetting[] = [
  {
    name: "cluster.link.prefix",
    label: "Prefix",
    hint: "The copies' names begin with it: with eu. the topic orders becomes eu.orders. It cannot be changed later.",
    usual: "none",
  },
  {
    name: "mirror.start.offset.spec",
    label: "Copy from",
    hint: "earliest, latest, or a time such as 2026-01-31T12:00:00Z.",
    usual: "earliest",
  },
  {
    name: "consumer.offset.sync.ms",
    label: "Milliseconds between syncs of group offsets",
    hint: "A group that continues here repeats at most what it read in that time.",
    usual: "30000",
    numeric: true,
  },
  {
    name: "topic.config.sync.ms",
    label: "Milliseconds between syncs of topic configs",
    hint: "The copies' retention, compression and segments follow the source's.",
    usual: "5000",
    numeric: true,
  },
  {
    name: "availability.check.ms",
    label: "Milliseconds between checks of the source",
    hint: "After several that fail in a row the link says that its source is unavailable.",
    usual: "60000",
    numeric: true,
  },
];

const EVERYTHING = { name: "*", patternType: "LITERAL", filterType: "INCLUDE" };

export const EVERY_GROUP: readonly Line[] = [
  { name: "consumer.offset.sync.enable", value: "true" },
  { name: "consumer.offset.group.filters", value: JSON.stringify({ groupFilters: [EVERYTHING] }) },
];

export const EVERY_TOPIC: readonly Line[] = [
  { name: "auto.create.mirror.topics.enable", value: "true" },
  { name: "auto.create.mirror.topics.filters", value: JSON.stringify({ topicFilters: [EVERYTHING] }) },
];

/** The fields beside the settings. */
export type LinkField = "name" | "bootstrap.servers" | "configs";

/** The field that an error is about: a setting's name, one of the others, or null for the form as a whole. */
export function fieldOf(message: string): string | null {
  const setting = LINK_SETTINGS.find(({ name }) => message.includes(name));
  if (setting !== undefined) return setting.name;
  if (/Link name|link_name|Link '.*' already exists/.test(message)) return "name" satisfies LinkField;
  if (/bootstrap\.servers|The source /.test(message)) return "bootstrap.servers" satisfies LinkField;
  if (/config/.test(message)) return "configs" satisfies LinkField;
  return null;
}
