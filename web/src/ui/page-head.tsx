// Where one is, and what can be done here.
import type { ReactNode } from "react";
import { Link } from "wouter";

interface Props {
  readonly crumbs: readonly (readonly [string, string])[];
  readonly title: string;
  readonly children?: ReactNode;
}

export const PageHead = ({ crumbs, title, children }: Props) => (
  <>
    <title>{`${title} · Isthmus`}</title>
    <nav className="crumbs" aria-label="Above this page">
      {crumbs.map(([path, name]) => (
        <span key={path}>
          <Link href={path}>{name}</Link> /{" "}
        </span>
      ))}
    </nav>
    <div className="bar">
      <h1>{title}</h1>
      {children}
    </div>
  </>
);

export const Facts = ({ of }: { of: readonly (readonly [string, ReactNode])[] }) => (
  <dl className="facts">
    {of.map(([name, value]) => (
      <div key={name}>
        <dt>{name}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
);
