// Dialogs: confirm a change, show it as a command, and show the agent's error if it refuses.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { wordsOf } from "../client/client.ts";
import { Banner, Button, Command } from "./controls.tsx";

interface DialogProps {
  readonly title: string;
  /** What the button that does it says: a verb, and of many their number. */
  readonly verb: string;
  readonly danger?: boolean;
  /** The same from a terminal. */
  readonly curl: string;
  readonly cli: string;
  /** Does it; what it throws is shown. */
  readonly onConfirm: () => Promise<void>;
  readonly onClose: () => void;
  readonly children?: ComponentChildren;
}

/** A question before something is changed. It closes when that is done, or with Escape. */
export function Dialog(props: DialogProps): JSX.Element {
  const { title, verb, danger = false, curl, cli, onConfirm, onClose, children } = props;
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string>();
  const box = useRef<HTMLDialogElement>(null);
  // The browser keeps the focus inside, and gives it back afterwards.
  useEffect(() => box.current?.showModal(), []);
  const confirm = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      await onConfirm();
      box.current?.close();
    } catch (failure) {
      setError(wordsOf(failure));
      setBusy(false);
    }
  };
  return (
    <dialog class="dialog" ref={box} onClose={onClose} aria-labelledby="dialog-title">
      <form onSubmit={confirm}>
        <h2 id="dialog-title">{title}</h2>
        {children}
        {error !== undefined && (
          <div role="alert">
            <Banner kind="bad" title={error} />
          </div>
        )}
        <Terminal curl={curl} cli={cli} />
        <div class="dialog-buttons">
          <Button kind="quiet" onClick={() => box.current?.close()}>Close</Button>
          <Button kind={danger ? "danger" : "primary"} type="submit" disabled={busy}>{verb}</Button>
        </div>
      </form>
    </dialog>
  );
}

interface TerminalProps {
  readonly curl: string;
  readonly cli: string;
  /** What the commands do, where there are several such parts. */
  readonly title?: string;
}

/** An action as commands, to be copied. */
export function Terminal(
  { curl, cli, title = "The same from a terminal" }: TerminalProps,
): JSX.Element {
  return (
    <details class="terminal">
      <summary>{title}</summary>
      <Command text={cli} label="as CLI" kind="CLI" />
      <Command text={curl} label="as curl" kind="curl" />
    </details>
  );
}
