// Controls: buttons, texts to copy, tabs, banners, searches, dialogs.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { announce, place, setQuery } from "../browser.ts";
import { wordsOf } from "../client/client.ts";

/** The weight of a button: primary, normal, destructive, or quiet. */
type ButtonKind = "primary" | "plain" | "danger" | "quiet";

interface ButtonProps {
  readonly kind?: ButtonKind;
  readonly onClick?: (event: MouseEvent) => void;
  readonly disabled?: boolean;
  readonly type?: "button" | "submit";
  /** What the button does, if its content does not say it. */
  readonly label?: string;
  readonly children: ComponentChildren;
}

/** A button acts on this page; use a link to go elsewhere. */
export function Button(
  { kind = "plain", onClick, disabled = false, type = "button", label, children }: ButtonProps,
): JSX.Element {
  return (
    <button
      type={type}
      class={`button button-${kind}`}
      disabled={disabled}
      aria-label={label}
      title={label}
      onClick={onClick}
    >
      {children}
    </button>
  );
}

/** Milliseconds for which a copied text is marked as copied. */
const COPIED_MS = 1_500;

/** Copies a text. @param label what is copied, such as "uuid" */
export function Copy(
  { text, label, children }: { text: string; label: string; children?: ComponentChildren },
): JSX.Element {
  const [copied, setCopied] = useState(false);
  const copy = async (event: MouseEvent) => {
    event.stopPropagation();
    event.preventDefault();
    await navigator.clipboard.writeText(text);
    announce(`Copied ${label}`);
    setCopied(true);
    setTimeout(() => setCopied(false), COPIED_MS);
  };
  return (
    <button
      type="button"
      class={children === undefined ? "copy copy-icon" : "copy"}
      data-copied={copied}
      title={`Copy ${label}`}
      aria-label={children === undefined ? `Copy ${label}` : undefined}
      onClick={copy}
    >
      {children ?? <CopyIcon />}
      {copied && <span class="copied" aria-hidden="true">Copied</span>}
    </button>
  );
}

interface CommandProps {
  readonly text: string;
  /** What is copied, for the button's name. */
  readonly label: string;
  /** What the text is for, if there are several. */
  readonly kind?: string;
}

/** A command to type elsewhere. */
export function Command({ text, label, kind }: CommandProps): JSX.Element {
  return (
    <div class="command">
      {kind !== undefined && <span class="command-kind">{kind}</span>}
      <code tabIndex={0}>{text}</code>
      <Copy text={text} label={label} />
    </div>
  );
}

function CopyIcon(): JSX.Element {
  return (
    <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
      <path
        d="M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z"
        fill="none"
        stroke="currentColor"
        stroke-width="1.3"
        stroke-linejoin="round"
      />
    </svg>
  );
}

/** A choice, with the number of its entries. */
interface Tab {
  readonly key: string;
  readonly title: string;
  readonly count?: number | undefined;
  /** Whether there may be more of them. */
  readonly more?: boolean;
}

interface TabsProps {
  readonly tabs: readonly Tab[];
  readonly current: string;
  /** What the tabs choose, for screen readers. */
  readonly label: string;
  /** Id of the element that they change. */
  readonly controls: string;
  readonly onChange: (key: string) => void;
}

/** Tabs; arrow keys go from one to the next. */
export function Tabs({ tabs, current, label, controls, onChange }: TabsProps): JSX.Element {
  const move = (event: KeyboardEvent & { currentTarget: HTMLElement }) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const at = tabs.findIndex(({ key }) => key === current);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    if (next === undefined) return;
    onChange(next.key);
    event.currentTarget.querySelector<HTMLElement>(`[data-key="${next.key}"]`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
      {tabs.map(({ key, title, count, more = false }) => (
        <button
          key={key}
          type="button"
          role="tab"
          class="tab"
          data-key={key}
          aria-selected={key === current}
          aria-controls={controls}
          tabIndex={key === current ? 0 : -1}
          onClick={() => onChange(key)}
        >
          {title}
          {count !== undefined && (
            <span class="tab-count">{count.toLocaleString("en")}{more && "+"}</span>
          )}
        </button>
      ))}
    </div>
  );
}

/** How a banner looks, by what it says. */
export type BannerKind = "bad" | "warn" | "info" | "good";

/** A strip that says one thing before all others. */
export function Banner(
  { kind, title, children }: { kind: BannerKind; title: string; children?: ComponentChildren },
): JSX.Element {
  return (
    <section class={`banner banner-${kind}`} aria-label={title}>
      <strong class="banner-title">{title}</strong>
      {children !== undefined && <div class="banner-text">{children}</div>}
    </section>
  );
}

/** An empty list: why it is empty, and what to do next, with the command. */
export function Empty(
  { title, command, children }: { title: string; command?: string; children?: ComponentChildren },
): JSX.Element {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
      {command !== undefined && <Command text={command} label="command" />}
    </div>
  );
}

/** The search text, which is part of the page's address. */
export function searchText(): string {
  return place.value.query.get("search") ?? "";
}

/** The search field. @param label for screen readers */
export function SearchField(
  { placeholder, label = "Search" }: { placeholder: string; label?: string },
): JSX.Element {
  return (
    <label class="filter-search">
      <span class="sr-only">{label}</span>
      <input
        type="search"
        placeholder={placeholder}
        value={searchText()}
        onInput={(event) => setQuery({ search: event.currentTarget.value })}
      />
    </label>
  );
}

interface DialogProps {
  readonly title: string;
  /** Text of the button that acts: a verb, with the number of things if there are many. */
  readonly verb: string;
  readonly danger?: boolean;
  /** The same action from a terminal. */
  readonly curl: string;
  readonly cli: string;
  /** Performs the action; a thrown error is shown. */
  readonly onConfirm: () => Promise<void>;
  readonly onClose: () => void;
  readonly children?: ComponentChildren;
}

/**
 * Asks before a change, shows it as a command, and shows the agent's error if it refuses. Closes
 * when the change is done, or with Escape.
 */
export function Dialog(props: DialogProps): JSX.Element {
  const { title, verb, danger = false, curl, cli, onConfirm, onClose, children } = props;
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string>();
  const box = useRef<HTMLDialogElement>(null);
  // The browser keeps the focus inside the dialog, and returns it afterwards.
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
  /** What the commands do, if there are several such parts. */
  readonly title?: string;
}

/** An action as commands to copy. */
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
