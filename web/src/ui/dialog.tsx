// A dialog of the platform's own: it keeps the focus, and Escape closes it.
import { type ReactNode, useEffect, useId, useRef } from "react";

interface Props {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ReactNode;
}

export function Dialog({ title, onClose, children }: Props) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => element.current?.showModal(), []);
  return (
    <dialog ref={element} onClose={onClose} aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        <button type="button" className="plain" aria-label="Close" onClick={() => element.current?.close()}>
          ✕
        </button>
      </header>
      {children}
    </dialog>
  );
}
