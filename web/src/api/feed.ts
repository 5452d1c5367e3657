// The stream of events: read while a user is signed in, reopened when it ends, and stale when nothing arrives.
import { createParser } from "eventsource-parser";
import { useSyncExternalStore } from "react";
import { type Known, merged, NOTHING, readNews } from "../logic/merge";
import { forgetSession, refresh } from "./client";

/** The control plane sends something at least every ten seconds. */
const STALE_MS = 15_000;
const RETRY_MS = [500, 1_000, 2_000, 4_000, 8_000] as const;

export interface Feed extends Known {
  readonly state: "connecting" | "live" | "stale";
  readonly receivedMs: number;
}

let feed: Feed = { ...NOTHING, state: "connecting", receivedMs: 0 };
const listeners = new Set<() => void>();

function change(next: Partial<Feed>): void {
  feed = { ...feed, ...next };
  for (const listener of listeners) listener();
}

const subscribe = (listener: () => void): (() => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

export const useFeed = (): Feed => useSyncExternalStore(subscribe, () => feed);

function receive(kind: string | undefined, data: string): void {
  const news = readNews(kind, data);
  if (news === null) return;
  change(merged(feed, news));
  if (news.kind === "task" && news.data.state !== "OPEN") void refresh();
}

/** Ends when the stream does, or when nothing arrives for too long. */
async function readOnce(signal: AbortSignal): Promise<void> {
  const stream = new AbortController();
  let timer = 0;
  const restartTimer = (): void => {
    window.clearTimeout(timer);
    timer = window.setTimeout(() => stream.abort(), STALE_MS);
  };
  restartTimer();
  try {
    const response = await fetch("/api/v1/events", { signal: AbortSignal.any([signal, stream.signal]) });
    if (response.status === 401) void forgetSession();
    if (!response.ok || response.body === null) return;
    const parser = createParser({
      // After lost events the stream is reopened: a new stream begins with everything.
      onEvent: ({ event, data }) => (event === "lost" ? stream.abort() : receive(event, data)),
    });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      restartTimer();
      change({ state: "live", receivedMs: Date.now() });
      parser.feed(part.value);
    }
  } finally {
    window.clearTimeout(timer);
  }
}

async function readRepeatedly(signal: AbortSignal): Promise<void> {
  let failures = 0;
  while (!signal.aborted) {
    const before = feed.receivedMs;
    await readOnce(signal).catch(() => undefined); // reopened whatever the reason
    if (signal.aborted) return;
    change({ state: "stale" });
    failures = feed.receivedMs > before ? 0 : failures + 1;
    const pause = RETRY_MS[Math.min(failures, RETRY_MS.length - 1)];
    await new Promise((resolve) => window.setTimeout(resolve, pause));
  }
}

/** Follow events until the returned function is called. */
export function follow(): () => void {
  const ending = new AbortController();
  void readRepeatedly(ending.signal);
  return () => {
    ending.abort();
    change({ ...NOTHING, state: "connecting", receivedMs: 0 });
  };
}
