// One flow on the map: dashes run from its source to its target, the colour is its lag, the label its numbers.
import type { Topology } from "../api/schema";
import type { Arc } from "../logic/arcs";
import { flowCaption, flowLabel } from "../logic/flows";
import { flowMoves, flowTone } from "../logic/tone";

interface Props {
  readonly arc: Arc;
  readonly topology: Topology;
}

export function ArcPath({ arc, topology }: Props) {
  const { flow, path } = arc;
  const { clusters } = topology;
  return (
    <g className={`arc ${flow.kind} tone-${flowTone(flow, clusters)}`} data-flow={flow.flow_id} data-moving={flowMoves(flow, clusters)}>
      <path className="arc-way" d={path} />
      <path className="arc-dashes" d={path}>
        <title>{flowCaption(flow, topology)}</title>
      </path>
    </g>
  );
}

export function ArcLabel({ arc, topology }: Props) {
  const text = flowLabel(arc.flow, topology);
  const width = text.length * 6.4 + 18;
  return (
    <g className={`arc-label tone-${flowTone(arc.flow, topology.clusters)}`} transform={`translate(${arc.x} ${arc.y})`}>
      <rect x={-width / 2} y={-10} width={width} height={20} rx={10} />
      <text textAnchor="middle" dy="0.34em">
        {text}
      </text>
    </g>
  );
}
