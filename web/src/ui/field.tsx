// A labelled control with a hint, and with what is wrong with it.
import { cloneElement, type ReactElement, useEffect, useId } from "react";

interface Props {
  readonly label: string;
  readonly hint?: string;
  readonly error?: string | undefined;
  readonly children: ReactElement<{ id?: string; "aria-describedby"?: string; "aria-invalid"?: boolean }>;
}

export function Field({ label, hint, error, children }: Props) {
  const id = useId();
  // In a long form it may be outside of the view.
  useEffect(() => {
    if (error !== undefined) document.getElementById(id)?.focus();
  }, [error, id]);
  const notes = [...(hint === undefined ? [] : [`${id}-hint`]), ...(error === undefined ? [] : [`${id}-error`])];
  const described = notes.length === 0 ? {} : { "aria-describedby": notes.join(" ") };
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {cloneElement(children, { id, "aria-invalid": error !== undefined, ...described })}
      {error !== undefined && (
        <small id={`${id}-error`} className="text-bad" role="alert">
          {error}
        </small>
      )}
      {hint !== undefined && (
        <small id={`${id}-hint`} className="muted">
          {hint}
        </small>
      )}
    </div>
  );
}
