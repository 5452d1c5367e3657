// Lag over the last minutes. The colours are those of the page, read again when the theme changes.
import { useEffect, useRef, useState } from "react";
import UPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { api, live } from "../api/client";
import type { LagSeries } from "../api/schema";
import { clock, lagDuration, lagRecords } from "../logic/format";
import { type Columns, columns, type Unit } from "../logic/series";
import { Answer, Empty } from "./states";
import { useSize } from "./use-size";

const HEIGHT = 240;
const LINES_MAX = 8;
const MINUTE_SECONDS = 60;
const TONES = ["--accent", "--busy", "--warn", "--bad", "--good", "--muted"] as const;

interface Props {
  readonly title: string;
  readonly query: { by: "copy" | "link" | "topic" | "regions"; link?: string; cluster_id?: string; topic?: string; kind?: LagSeries["kind"] };
  readonly label: (series: LagSeries) => string;
}

export function LagPanel({ title, query, label }: Props) {
  const [unit, setUnit] = useState<Unit>("ms");
  const asked = api.useQuery("get", "/api/v1/lag", { params: { query } }, live);
  return (
    <section className="panel">
      <div className="bar">
        <h2>{title}</h2>
        <select aria-label="Unit" value={unit} onChange={(event) => setUnit(event.target.value as Unit)} style={{ width: "auto" }}>
          <option value="ms">time behind</option>
          <option value="records">records behind</option>
        </select>
      </div>
      <Answer of={asked}>{({ series }) => <Lines series={series} unit={unit} label={label} />}</Answer>
    </section>
  );
}

function Lines({ series, unit, label }: { series: readonly LagSeries[]; unit: Unit; label: Props["label"] }) {
  if (series.length === 0) {
    return (
      <Empty title="No samples in the last 15 minutes">
        <p>Brokers and linkers write them to __isthmus_lag when isthmus.samples.interval.ms is set.</p>
      </Empty>
    );
  }
  const shown = worstFirst(series).slice(0, LINES_MAX);
  const data = columns(shown, unit, label);
  return (
    <>
      {series.length > LINES_MAX && <p className="muted">The {LINES_MAX} furthest behind of {series.length}.</p>}
      <Chart data={data} unit={unit} />
      <AsTable data={data} unit={unit} />
    </>
  );
}

const worstFirst = (series: readonly LagSeries[]): readonly LagSeries[] => {
  const most = (one: LagSeries): number => Math.max(-1, ...one.points.map(({ lag_ms }) => lag_ms ?? -1));
  return [...series].sort((one, other) => most(other) - most(one));
};

const lagText = (value: number | null | undefined, unit: Unit): string =>
  unit === "ms" ? lagDuration(value ?? null) : lagRecords(value ?? null);

function Chart({ data, unit }: { data: Columns; unit: Unit }) {
  const [box, width] = useSize();
  const inner = useRef<HTMLDivElement>(null);
  const chart = useRef<UPlot>(null);
  const shape = `${unit} ${data.lines.map(({ label }) => label).join()}`;
  const theme = useScheme();
  const table = (): UPlot.AlignedData => [[...data.seconds], ...data.lines.map(({ values }) => [...values])];
  useEffect(() => {
    if (inner.current === null || width === 0) return undefined;
    const made = new UPlot(options(data, unit, width, inner.current), table(), inner.current);
    chart.current = made;
    return () => made.destroy();
    // The chart is created again for another shape; new numbers are passed to it below.
  }, [shape, width, theme]);
  useEffect(() => chart.current?.setData(table()), [data]);
  return (
    <div className="chart" ref={box}>
      <div ref={inner} role="img" aria-label="Lag over time; the numbers are in the table below." />
    </div>
  );
}

/** Changes whenever the page turns dark or light. */
function useScheme(): string {
  const [scheme, setScheme] = useState("");
  useEffect(() => {
    const root = document.documentElement;
    const read = (): void => setScheme(getComputedStyle(root).backgroundColor + root.dataset["theme"] + dark.matches);
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    const observer = new MutationObserver(read);
    observer.observe(root, { attributeFilter: ["data-theme"] });
    dark.addEventListener("change", read);
    read();
    return () => {
      observer.disconnect();
      dark.removeEventListener("change", read);
    };
  }, []);
  return scheme;
}

function options(data: Columns, unit: Unit, width: number, element: HTMLElement): UPlot.Options {
  const colour = (name: string): string => {
    element.style.color = `var(${name})`;
    return getComputedStyle(element).color;
  };
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  const lines = data.lines.map(({ label }, index) => ({
    label,
    stroke: colour(TONES[index % TONES.length] ?? "--accent"),
    width: 1.8,
    dash: index < TONES.length ? [] : [6, 4],
    points: { show: false },
    value: (_: UPlot, value: number | null) => lagText(value, unit),
  }));
  element.style.color = "";
  return {
    width,
    height: HEIGHT,
    series: [{ value: (_: UPlot, seconds: number | null) => (seconds === null ? "–" : clock(seconds * 1_000)) }, ...lines],
    axes: [axis, { ...axis, size: 84, values: (_: UPlot, values: number[]) => values.map((value) => lagText(value, unit)) }],
    scales: {
      // The first sample alone would be shown in the middle of years.
      x: { range: (_: UPlot, first: number, last: number) => [Math.min(first, last - MINUTE_SECONDS), last] },
      y: { range: (_: UPlot, __: number, most: number) => [0, Math.max(unit === "ms" ? 100 : 10, most * 1.1)] },
    },
    legend: { live: false },
    cursor: { drag: { x: false, y: false } },
  };
}

function AsTable({ data, unit }: { data: Columns; unit: Unit }) {
  return (
    <details>
      <summary>The newest numbers as a table</summary>
      <table>
        <tbody>
          {data.lines.map(({ label, values }) => (
            <tr key={label}>
              <th scope="row">{label}</th>
              <td className="number">{lagText(values.at(-1), unit)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}
