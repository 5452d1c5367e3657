// Promote and failover in plain words: what will happen, and what would be lost now.
import type { Mirror } from "../api/schema";
import { count, counted, duration, lagRecords, plain } from "./format";
import type { Latest } from "./series";

/** The API calls information stale from this age on. */
const STALE_MS = 5_000;

export type Transition = "promote" | "failover";

export const WORDS: Readonly<Record<Transition, { readonly title: string; readonly button: string; readonly steps: readonly string[] }>> = {
  promote: {
    title: "Promote",
    button: "Promote",
    steps: [
      "The link copies what is still missing from the source, then stops copying into these topics.",
      "Group offsets are synced a last time, and clients may write here from then on.",
      "Nothing is lost, as long as producers on the source have stopped: stop them first.",
      "The source must be reachable. Where it is not, fail over instead.",
    ],
  },
  failover: {
    title: "Fail over",
    button: "Fail over now",
    steps: [
      "These topics become writable at once, as they are. The source is not contacted.",
      "Records that the source has and these copies have not stay behind there.",
      "Transactions that are open are aborted here, so that readers do not hang.",
      "It cannot be taken back: the topics do not follow the source again.",
    ],
  },
};

/** Mirror topics that a transition still has something to do for. */
export const canChange = ({ mirror_status }: Mirror): boolean => mirror_status !== "STOPPED";

/** Records that a mirror topic lacks; null when the lag of a partition is unknown. */
export function missing(mirror: Pick<Mirror, "mirror_lags">): number | null {
  const lags = mirror.mirror_lags.map(({ lag }) => lag);
  return lags.length === 0 || lags.includes(null) ? null : lags.reduce<number>((sum, lag) => sum + (lag ?? 0), 0);
}

/** The same in words, with the age of the oldest source position when that is stale. */
export function lagText(mirror: Pick<Mirror, "mirror_lags">): string {
  const age = Math.max(0, ...mirror.mirror_lags.map(({ source_age_ms }) => source_age_ms ?? 0));
  return `${lagRecords(missing(mirror))}${age > STALE_MS ? `, as of ${duration(age)} ago` : ""}`;
}

/** What would be lost by failing over now, as a sentence. */
export function lossNow(mirrors: readonly Mirror[], sampled: Latest | null, nowMs: number): string {
  const known = mirrors.map(missing);
  const records = known.reduce<number>((sum, one) => sum + (one ?? 0), 0);
  const unknown = known.filter((one) => one === null).length;
  const told = records === 0 && unknown === 0 ? "No record is missing" : `${counted(records, "record")} missing`;
  const time = sampled === null || sampled.ms === null ? "" : `, ${duration(sampled.ms)} behind the source`;
  const age = sampled !== null && nowMs - sampled.atMs > STALE_MS ? `, as it was ${duration(nowMs - sampled.atMs)} ago` : "";
  const rest = unknown === 0 ? "" : ` Of ${count(unknown)} ${unknown === 1 ? "topic" : "topics"} it is unknown.`;
  return `${told}${time}${age}.${rest}${beyond(mirrors)}`;
}

/** Only while a topic is being copied is the source's end known. */
function beyond(mirrors: readonly Mirror[]): string {
  const resting = mirrors.filter(({ mirror_status }) => mirror_status !== "ACTIVE").map(({ mirror_status }) => plain(mirror_status));
  return resting.length === 0 ? "" : ` The source may have more than it last reported (${[...new Set(resting)].join(", ")}).`;
}

/** What has to be typed before a failover: the topic, or the link when there are several. */
export const typedName = (topics: readonly string[], link: string): string => (topics.length === 1 ? (topics[0] ?? link) : link);
