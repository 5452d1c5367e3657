// A region on the map: its mark, and the card of what it holds.
import { Link } from "wouter";
import { counted } from "../logic/format";
import { clusterPath } from "../logic/paths";
import type { Box, Place } from "../logic/places";
import { type RegionView, type Resident, regionTone } from "../logic/regions";
import { isGone, stateTone, worst } from "../logic/tone";
import { Dot } from "../ui/pill";

export const CARD_WIDTH = 206;
const HEAD_HEIGHT = 36;
const RESIDENT_HEIGHT = 44;

export const cardHeight = (region: RegionView): number =>
  HEAD_HEIGHT + RESIDENT_HEIGHT * Math.max(1, region.residents.length) + (region.state === "unreachable" ? 6 : 0);

interface MarkProps {
  readonly region: RegionView;
  readonly place: Place | undefined;
  readonly labelled: boolean;
}

export function RegionMark({ region, place, labelled }: MarkProps) {
  if (place === undefined) return null;
  return (
    <g className={`region-mark tone-${regionTone(region)}`} transform={`translate(${place.x} ${place.y})`}>
      {region.state === "unreachable" && <circle className="alarm" r={16} />}
      <circle className="halo" r={10} />
      <circle className="core" r={5} />
      {labelled && (
        <text textAnchor="middle" y={24}>
          {region.title}
        </text>
      )}
    </g>
  );
}

export function RegionCard({ region, box }: { region: RegionView; box: Box | undefined }) {
  const style = box && { left: box.x, top: box.y, width: box.width };
  return (
    <section className={`region-card tone-${regionTone(region)}`} style={style} data-region={region.key} data-state={region.state}>
      <header>
        <h3>{region.title}</h3>
        {region.state === "unreachable" ? <strong className="cut">unreachable</strong> : <span className="muted">{region.key}</span>}
      </header>
      {region.residents.length === 0 && <p className="muted">No cluster here</p>}
      <ul>
        {region.residents.map((resident) => (
          <ResidentRow key={resident.cluster.cluster_id} resident={resident} />
        ))}
      </ul>
    </section>
  );
}

function ResidentRow({ resident }: { resident: Resident }) {
  const { cluster, brokers, leaders, observers } = resident;
  const gone = brokers.filter(isGone).length;
  const tone = worst([stateTone(cluster.state), gone > 0 ? "warn" : "quiet"]);
  const holds = [
    counted(leaders, "leader"),
    ...(observers > 0 ? [counted(observers, "observer")] : []),
  ].join(" · ");
  return (
    <li>
      <Link href={clusterPath(cluster.cluster_id)}>
        <Dot tone={tone} /> {cluster.name}
        <span className="brokers" role="img" aria-label={`${counted(brokers.length, "broker")}, ${gone} unreachable or fenced`}>
          {brokers.map((broker) => (
            <i key={broker.broker_id} className={broker.fenced ? "fenced" : broker.unreachable_since_ms !== null || cluster.state !== "UP" ? "unknown" : ""} title={`broker ${broker.broker_id}`} />
          ))}
        </span>
      </Link>
      <span className="muted">{cluster.state === "UNREACHABLE" ? "unreachable" : holds}</span>
    </li>
  );
}
