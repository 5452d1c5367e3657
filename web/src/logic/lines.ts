// Configs as people write them: a line each, name=value.

export interface Line {
  readonly name: string;
  readonly value: string;
}

/** The lines, or the first that is none. */
export function readLines(text: string): { readonly configs: readonly Line[]; readonly wrong: string | null } {
  const configs: Line[] = [];
  for (const line of text.split("\n").map((one) => one.trim())) {
    if (line === "" || line.startsWith("#")) continue;
    const equals = line.indexOf("=");
    if (equals < 1) return { configs, wrong: line };
    configs.push({ name: line.slice(0, equals).trim(), value: line.slice(equals + 1).trim() });
  }
  return { configs, wrong: null };
}
