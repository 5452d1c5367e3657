// States, as a coloured word or dot; colour never stands alone.
import { plain } from "../logic/format";
import { stateTone, type Tone } from "../logic/tone";

export const Dot = ({ tone }: { tone: Tone }) => <i className={`dot tone-${tone}`} aria-hidden="true" />;

export const Pill = ({ tone, children }: { tone: Tone; children: React.ReactNode }) => (
  <span className={`pill tone-${tone}`}>{children}</span>
);

export const StatePill = ({ state }: { state: string }) => <Pill tone={stateTone(state)}>{plain(state)}</Pill>;
