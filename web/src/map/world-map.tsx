// The map: land, regions with what they hold, and the flows between them.
import { geoGraticule10, geoPath } from "d3-geo";
import type { MultiPolygon } from "geojson";
import { useMemo } from "react";
import type { Topology } from "../api/schema";
import land from "../generated/land.json";
import { arcs } from "../logic/arcs";
import { apart, places, projectionOf } from "../logic/places";
import { regionViews } from "../logic/regions";
import { useSize } from "../ui/use-size";
import { ArcLabel, ArcPath } from "./arc";
import { CARD_WIDTH, cardHeight, RegionCard, RegionMark } from "./region";

const LAND = land as MultiPolygon;
/** Below this width the cards stand under the map instead of on it. */
const ROOMY = 760;
const CARD_GAP = 10;

export function WorldMap({ topology }: { topology: Topology }) {
  const [box, width] = useSize();
  const roomy = width >= ROOMY;
  const size = { width, height: roomy ? Math.min(660, Math.max(460, width * 0.52)) : Math.max(300, width * 0.8) };
  const regions = regionViews(topology);
  const shown = regions.map(({ key, latitude, longitude }) => `${key} ${latitude} ${longitude}`).join();
  // The land is redrawn when regions or the window change, and not with every event.
  const base = useMemo(() => draw(regions, size), [shown, size.width, size.height]);
  const drawn = arcs(topology.flows, base.places);
  const cards = apart(
    regions.map((region) => {
      const place = base.places.get(region.key);
      return { x: (place?.x ?? 0) - CARD_WIDTH / 2, y: (place?.y ?? 0) + 18, width: CARD_WIDTH, height: cardHeight(region) };
    }),
    size,
    CARD_GAP,
  );
  return (
    <div className="map" ref={box}>
      <svg width={size.width} height={size.height} role="img" aria-label={`Map of ${regions.length} regions and ${drawn.length} flows; the table below has the same content.`}>
        <path className="graticule" d={base.graticule} />
        <path className="land" d={base.land} />
        {drawn.map((arc) => (
          <ArcPath key={arc.flow.flow_id} arc={arc} topology={topology} />
        ))}
        {regions.map((region) => (
          <RegionMark key={region.key} region={region} place={base.places.get(region.key)} labelled={!roomy} />
        ))}
        {drawn.map((arc) => (
          <ArcLabel key={arc.flow.flow_id} arc={arc} topology={topology} />
        ))}
      </svg>
      <div className={roomy ? "cards-on-map" : "cards-below"}>
        {regions.map((region, index) => (
          <RegionCard key={region.key} region={region} box={roomy ? cards[index] : undefined} />
        ))}
      </div>
    </div>
  );
}

function draw(regions: ReturnType<typeof regionViews>, size: { width: number; height: number }) {
  const projection = projectionOf(regions, size);
  const path = geoPath(projection.clipExtent([[-2, -2], [size.width + 2, size.height + 2]])).digits(1);
  return {
    land: path(LAND) ?? "",
    graticule: path(geoGraticule10()) ?? "",
    places: places(regions, projection, size),
  };
}
