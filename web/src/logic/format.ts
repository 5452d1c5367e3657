// Numbers with their units, as people read them.

const GROUPED = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const MINUS = "\u2013";

export const count = (value: number): string => GROUPED.format(value);

/** "1 broker", "2 brokers", "1,200 brokers". */
export const counted = (value: number, noun: string): string => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

/** Short enough for an arc's label. */
export const compact = (value: number): string => (value < 10_000 ? count(value) : COMPACT.format(value));

/** A length of time; -1 and null are unknown. */
export function duration(ms: number | null): string {
  if (ms === null || ms < 0) return MINUS;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1_000);
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} d`;
}

/** A number of records; -1 and null are unknown. */
export const records = (value: number | null): string =>
  value === null || value < 0 ? MINUS : `${compact(value)} ${value === 1 ? "record" : "records"}`;

/** A lag in words: unknown is never a number. */
export const lagDuration = (ms: number | null): string => (ms === null ? "unknown" : duration(ms));
export const lagRecords = (value: number | null): string => (value === null ? "unknown" : records(value));

/** Bytes in powers of ten, as disks are sold. */
export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  const power = value < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(value) / 3));
  const scaled = value / 1_000 ** power;
  return `${power === 0 || scaled >= 100 ? Math.round(scaled) : scaled.toFixed(1)} ${units[power]}`;
}

/** An offset; -1 and null are unknown. */
export const offset = (value: number | null): string => (value === null || value < 0 ? MINUS : count(value));

/** With a full stop, if it has none. */
export const sentence = (text: string): string => (text.endsWith(".") ? text : `${text}.`);

/** "12 s ago". */
export function ago(atMs: number, nowMs: number): string {
  return nowMs - atMs < 1_000 ? "just now" : `${duration(nowMs - atMs)} ago`;
}

const part = (value: number): string => String(value).padStart(2, "0");

/** Local time to the second. */
export function clock(atMs: number): string {
  const at = new Date(atMs);
  return `${at.getFullYear()}-${part(at.getMonth() + 1)}-${part(at.getDate())} ${timeOfDay(atMs)}`;
}

/** Local time to the second, of today. */
export function timeOfDay(atMs: number): string {
  const at = new Date(atMs);
  return `${part(at.getHours())}:${part(at.getMinutes())}:${part(at.getSeconds())}`;
}

/** ConsumerOffsetSync reads better as "consumer offset sync". */
export const spaced = (name: string): string => plain(name.replaceAll(/([a-z])([A-Z])/g, "$1 $2"));

/** SOURCE_UNAVAILABLE reads better as "source unavailable". */
export const plain = (state: string): string => state.replaceAll("_", " ").toLowerCase();
