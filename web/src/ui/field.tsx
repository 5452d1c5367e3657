// A labelled control with a hint.
import { cloneElement, type ReactElement, useId } from "react";

interface Props {
  readonly label: string;
  readonly hint?: string;
  readonly children: ReactElement<{ id?: string; "aria-describedby"?: string }>;
}

export function Field({ label, hint, children }: Props) {
  const id = useId();
  const described = hint === undefined ? {} : { "aria-describedby": `${id}-hint` };
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {cloneElement(children, { id, ...described })}
      {hint !== undefined && (
        <small id={`${id}-hint`} className="muted">
          {hint}
        </small>
      )}
    </div>
  );
}
