// What every page has around it: where to go, how fresh the data is, the theme, and the way out.
import type { ReactNode } from "react";
import { Link, useLocation } from "wouter";
import { fetchApi, forgetSession } from "./api/client";
import { type Feed, useFeed } from "./api/feed";
import { duration } from "./logic/format";
import { Pill } from "./ui/pill";
import { useTheme } from "./ui/theme";
import { useNow } from "./ui/use-now";

const PAGES = [
  ["/", "Map"],
  ["/clusters", "Clusters"],
  ["/tasks", "Tasks"],
  ["/audit", "Audit"],
] as const;

export function Shell({ children }: { children: ReactNode }) {
  const feed = useFeed();
  const [theme, nextTheme] = useTheme();
  const [at] = useLocation();
  const isHere = (path: string): boolean => at === path || (path !== "/" && at.startsWith(path));
  return (
    <div className={feed.state === "stale" ? "shell stale" : "shell"}>
      <a className="skip" href="#main">
        Skip to content
      </a>
      <header className="top">
        <Link href="/" className="brand">
          Isthmus
        </Link>
        <nav aria-label="Pages">
          {PAGES.map(([path, name]) => (
            <Link key={path} href={path} className={isHere(path) ? "here" : ""} aria-current={isHere(path) ? "page" : undefined}>
              {name}
            </Link>
          ))}
        </nav>
        <Freshness feed={feed} />
        <button type="button" className="plain" onClick={nextTheme} aria-label={`Theme: ${theme}. Change it.`} title={`Theme: ${theme}`}>
          {{ system: "◐", light: "☀", dark: "☾" }[theme]}
        </button>
        <button type="button" className="plain" onClick={() => void signOut()}>
          Sign out
        </button>
      </header>
      <main id="main">{children}</main>
    </div>
  );
}

function Freshness({ feed }: { feed: Feed }) {
  const now = useNow();
  return (
    <span className="freshness" role="status" data-state={feed.state}>
      {feed.state === "live" && <Pill tone="good">live</Pill>}
      {feed.state === "connecting" && <Pill tone="busy">connecting</Pill>}
      {feed.state === "stale" && (
        <Pill tone="bad">stale{feed.receivedMs > 0 && ` for ${duration(now - feed.receivedMs)}`}, reconnecting</Pill>
      )}
    </span>
  );
}

async function signOut(): Promise<void> {
  await fetchApi.DELETE("/api/v1/session");
  await forgetSession();
}
