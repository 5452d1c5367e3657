// Makes what the sources import and nobody commits: types from the OpenAPI document, and a light outline of the land.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";
import { feature } from "topojson-client";

const here = dirname(fileURLToPath(import.meta.url));
const generated = join(here, "..", "src", "generated");
const python = process.env.PYTHON ?? join(here, "..", "..", ".venv", "bin", "python");

async function types() {
  const document = execFileSync(python, [join(here, "openapi.py")], { maxBuffer: 64 * 1024 * 1024, encoding: "utf8" });
  const nodes = await openapiTS(JSON.parse(document), { alphabetize: true, defaultNonNullable: false });
  writeFileSync(join(generated, "api.ts"), astToString(nodes));
}

// A tenth of a degree is finer than the map ever shows; the ice of Antarctica is of no use to it.
const rounded = (ring) =>
  ring
    .map(([longitude, latitude]) => [Math.round(longitude * 10) / 10, Math.round(latitude * 10) / 10])
    .filter((point, index, all) => index === 0 || point[0] !== all[index - 1][0] || point[1] !== all[index - 1][1]);

function land() {
  const atlas = JSON.parse(readFileSync(createRequire(import.meta.url).resolve("world-atlas/land-110m.json"), "utf8"));
  const polygons = feature(atlas, atlas.objects.land).features.flatMap(({ geometry }) => geometry.coordinates);
  const coordinates = polygons
    .filter((polygon) => polygon[0].some(([, latitude]) => latitude > -60))
    .map((polygon) => polygon.map(rounded));
  writeFileSync(join(generated, "land.json"), JSON.stringify({ type: "MultiPolygon", coordinates }));
}

mkdirSync(generated, { recursive: true });
await types();
land();
