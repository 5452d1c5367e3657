// What a page shows when it has nothing yet, nothing at all, or an error.
import type { ReactNode } from "react";
import { problemText } from "../logic/problem";

export const Loading = () => (
  <p className="loading muted" role="status">
    Loading…
  </p>
);

export const ProblemNote = ({ error }: { error: unknown }) => (
  <p className="problem" role="alert">
    {problemText(error)}
  </p>
);

export const Empty = ({ title, children }: { title: string; children?: ReactNode }) => (
  <div className="empty">
    <h3>{title}</h3>
    {children}
  </div>
);

interface Asked<T> {
  readonly data: T | undefined;
  readonly error: unknown;
}

/** What was answered last stays readable while it cannot be asked again. */
export function Answer<T>({ of, children }: { of: Asked<T>; children: (data: T) => ReactNode }) {
  return (
    <>
      {of.error !== null && of.error !== undefined && <ProblemNote error={of.error} />}
      {of.data === undefined ? of.error == null && <Loading /> : children(of.data)}
    </>
  );
}
