// A new machine: a form beside its JSON, a dry run, the order, and its job until the machine runs.

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { cliOf, CREATE_WORDS, curlOf, mayChange, wordsOf } from "../../client/client.ts";
import { follow } from "../../client/events.ts";
import { Banner, Button, Empty, Terminal } from "../../part/controls.tsx";
import { bytesText } from "../../part/shown.tsx";
import { go, nameTab, place } from "../../browser.ts";
import { type Bounds, firstRequest, readBounds } from "./bounds.ts";
import { brandOf } from "./devices.tsx";
import {
  type Draft,
  fieldText,
  forgetDraft,
  type JsonObject,
  keptDraft,
  openDraft,
  textOf,
  valueAt,
} from "./draft.ts";
import { idOf } from "./field.tsx";
import { RequestForm } from "./form.tsx";
import { dryRunOf, isBusy, Making, openOrder, type Order, type Refusal } from "./order.tsx";

/** The form, or the job of the order that the address names. */
export function NewMachinePage(): JSX.Element {
  const { query } = place.value;
  const job_uuid = query.get("job");
  const machine_uuid = query.get("machine");
  if (job_uuid !== null && machine_uuid !== null) {
    return <Making key={job_uuid} job_uuid={job_uuid} machine_uuid={machine_uuid} />;
  }
  return mayChange() ? <NewMachine /> : <ReadOnly />;
}

function ReadOnly(): JSX.Element {
  useEffect(() => nameTab("New machine"), []);
  // Keeps a stream open, so that the frame shows whether the agent answers.
  useEffect(() => follow("kind=host", { load: () => {} }), []);
  return (
    <>
      <h1>New machine</h1>
      <Empty
        title="This token may only read"
        command={cliOf(CREATE_WORDS)}
      >
        <p class="muted">Sign in with a token of scope admin, or use one in a terminal:</p>
      </Empty>
    </>
  );
}

/** The keys of the address that name an image of the index. */
const ARTIFACT_KEYS = ["distro", "release", "build", "variant", "arch", "format"] as const;

/** The medium of a link such as `?path=debian-13.iso` or `?distro=debian&release=13`. */
function linkedMedium(query: URLSearchParams): JsonObject | undefined {
  const path = query.get("path");
  if (path !== null) return { path };
  const named = ARTIFACT_KEYS.flatMap((key) => {
    const value = query.get(key);
    return value === null ? [] : [[key, value] as const];
  });
  return named.length === 0 ? undefined : { artifact: Object.fromEntries(named) };
}

function NewMachine(): JSX.Element {
  useEffect(() => nameTab("New machine"), []);
  const bounds = useSignal<Bounds | undefined>(undefined);
  const error = useSignal<string | undefined>(undefined);
  const again = useSignal(0);
  useEffect(() => {
    const closing = new AbortController();
    error.value = undefined;
    readBounds(closing.signal).then(
      (found) => bounds.value = found,
      (failure) => {
        if (!closing.signal.aborted) error.value = wordsOf(failure);
      },
    );
    return () => closing.abort();
  }, [again.value]);
  const draft = useSignal<Draft | undefined>(undefined);
  useEffect(() => {
    if (bounds.value === undefined) return;
    const media = linkedMedium(place.value.query);
    const kept = keptDraft();
    if (kept !== undefined && media !== undefined) kept.set(["media"], media);
    draft.value = kept ?? openDraft(textOf(firstRequest(bounds.value, media)));
    // Changes the address, so that a reload keeps later choices.
    if (media !== undefined) go("/new", "replace");
  }, [bounds.value]);
  if (error.value !== undefined) {
    return (
      <>
        <h1>New machine</h1>
        <Banner kind="bad" title={error.value}>
          <Button onClick={() => again.value += 1}>Try again</Button>
        </Banner>
      </>
    );
  }
  if (bounds.value === undefined || draft.value === undefined) {
    return <p class="muted loading" role="status">Loading</p>;
  }
  const { value: found } = bounds;
  const clear = () => {
    forgetDraft();
    draft.value = openDraft(textOf(firstRequest(found, undefined)));
  };
  return <Request bounds={found} draft={draft.value} onClear={clear} />;
}

interface RequestProps {
  readonly bounds: Bounds;
  readonly draft: Draft;
  readonly onClear: () => void;
}

function Request({ bounds, draft, onClear }: RequestProps): JSX.Element {
  const order = useMemo(() => openOrder(draft), [draft]);
  useEffect(() => {
    const stop = draft.text.subscribe(() => order.changed());
    return () => {
      stop();
      order.close();
    };
  }, [order]);
  const state = order.state.value;
  useEffect(() => {
    if (state.kind !== "made") return;
    const query = new URLSearchParams({ machine: state.uuid, job: state.job_uuid });
    go(`/new?${query}`, "replace");
  }, [state.kind]);
  const busy = isBusy(state);
  const form = useRef<HTMLFormElement>(null);
  const shown = (work: Promise<void>) => void work.then(() => showOutcome(form.current));
  return (
    <>
      <div class="page-head request-head">
        <h1>New machine</h1>
        <Button kind="quiet" disabled={busy} onClick={onClear}>Start over</Button>
      </div>
      <div class="request">
        <form
          class="request-form"
          aria-label="Request"
          noValidate
          ref={form}
          onSubmit={(event) => {
            event.preventDefault();
            // A dialog inside the form has a form of its own.
            if (event.target === event.currentTarget) shown(order.check());
          }}
        >
          <fieldset class="request-fields" disabled={busy || draft.problem.value !== undefined}>
            <RequestForm
              form={{ draft, errors: order.errors.value }}
              bounds={bounds}
              brand={brandOf(draft.request.value)}
            />
          </fieldset>
          {draft.problem.value === undefined && (
            <div class="outcome">
              <Outcome order={order} />
            </div>
          )}
          <OrderBar order={order} draft={draft} onCreate={() => shown(order.create())} />
        </form>
        <div class="request-side">
          <Editor draft={draft} disabled={busy} />
          <Commands order={order} draft={draft} />
        </div>
      </div>
    </>
  );
}

/** Not after an automatic check: that would scroll the page while the user types. */
function showOutcome(form: HTMLFormElement | null): void {
  requestAnimationFrame(() =>
    form?.querySelector(".outcome")?.scrollIntoView({ block: "nearest" })
  );
}

/** The result of the dry run, or of the order. */
function Outcome({ order }: { order: Order }): JSX.Element | null {
  const state = order.state.value;
  if (state.kind === "refused") return <Refusals refusals={state.refusals} />;
  if (state.kind === "sending" && state.cuts > 0) {
    return (
      <Banner kind="warn" title="The agent does not answer">
        It is asked again until it does. The key of the order makes one machine of all tries.
      </Banner>
    );
  }
  if (state.kind !== "possible") return null;
  const { medium, unchecked } = state;
  const size = medium?.size ?? null;
  return (
    <Banner kind="good" title="The request would be accepted; nothing was created">
      {medium !== null && (
        <p>
          It boots {medium.name}
          {size === null ? "" : `, ${bytesText(size)}`}.
        </p>
      )}
      {unchecked.map((words) => <p key={words}>{words}</p>)}
    </Banner>
  );
}

function Refusals({ refusals }: { refusals: readonly Refusal[] }): JSX.Element {
  const show = (field: string) => {
    const found = document.getElementById(idOf(field)) ?? document.getElementById(EDITOR_ID);
    found?.focus();
    found?.scrollIntoView({ block: "center" });
  };
  return (
    <Banner kind="bad" title="The request is refused">
      <ul class="refusals">
        {refusals.map(({ field, message }) => (
          <li key={message} class="wrap">
            {message}
            {field !== undefined && (
              <>
                {" "}
                <Button kind="quiet" label={`Show ${field}`} onClick={() => show(field)}>
                  Show
                </Button>
              </>
            )}
          </li>
        ))}
      </ul>
    </Banner>
  );
}

interface OrderBarProps {
  readonly order: Order;
  readonly draft: Draft;
  readonly onCreate: () => void;
}

function OrderBar({ order, draft, onCreate }: OrderBarProps): JSX.Element {
  const state = order.state.value;
  const stuck = isBusy(state) || draft.problem.value !== undefined;
  const name = fieldText(valueAt(draft.request.value, ["machine", "alias"]));
  return (
    <div class="order-bar">
      <span class="muted" role="status">{barText(state, draft)}</span>
      <Button type="submit" disabled={stuck || state.kind === "checking"}>
        Check
      </Button>
      <Button kind="primary" disabled={stuck} onClick={onCreate}>
        Create {name === "" ? "the machine" : name}
      </Button>
    </div>
  );
}

function barText(state: Order["state"]["value"], draft: Draft): string {
  if (draft.problem.value !== undefined) return "The JSON cannot be read";
  switch (state.kind) {
    case "checking":
      return "Checking";
    case "sending":
      return "Sending the request";
    case "refused":
      return state.refusals.length === 1 ? "1 problem" : `${state.refusals.length} problems`;
    case "possible":
      return "Would be accepted";
    case "writing":
    case "made":
      return "";
  }
}

/** The same order as commands for a shell. */
function Commands({ order, draft }: { order: Order; draft: Draft }): JSX.Element {
  const input = ` <<'JSON'\n${textOf(draft.request.value)}\nJSON`;
  const words = ["machine", "create", "-f", "-"];
  return (
    <>
      <Terminal cli={cliOf([...words, "--follow"]) + input} curl={curlOf(order.callOf())} />
      <Terminal
        title="Check it from a terminal"
        cli={cliOf([...words, "--dry-run"]) + input}
        curl={curlOf(dryRunOf(draft))}
      />
    </>
  );
}

/** The id of the text. */
const EDITOR_ID = "request-json";
const PROBLEM_ID = `${EDITOR_ID}-problem`;
/** Smallest and largest height of the text, lines. */
const ROWS_MIN = 18;
const ROWS_MAX = 44;

/** The request as JSON, and where it is broken. Form and text each change the other. */
function Editor({ draft, disabled }: { draft: Draft; disabled: boolean }): JSX.Element {
  const box = useRef<HTMLTextAreaElement>(null);
  const problem = draft.problem.value;
  const lines = draft.text.value.split("\n").length;
  const goThere = (at: number) => {
    box.current?.focus();
    box.current?.setSelectionRange(at, at + 1);
  };
  return (
    <section class="request-json" aria-label="JSON">
      <label for={EDITOR_ID}>Request as JSON</label>
      <textarea
        id={EDITOR_ID}
        ref={box}
        spellcheck={false}
        autocomplete="off"
        wrap="off"
        rows={Math.min(Math.max(lines, ROWS_MIN), ROWS_MAX)}
        disabled={disabled}
        value={draft.text.value}
        aria-invalid={problem !== undefined}
        aria-describedby={problem === undefined ? undefined : PROBLEM_ID}
        onInput={({ currentTarget }) => draft.edit(currentTarget.value)}
      />
      <div id={PROBLEM_ID} role="status">
        {problem !== undefined && (
          <>
            <p class="field-error">{problem.message}</p>
            <p class="hint">The form stays as it is until the JSON can be read.</p>
          </>
        )}
      </div>
      {problem !== undefined && (
        <div class="request-json-actions">
          {problem.at !== undefined && (
            <Button onClick={() => goThere(problem.at ?? 0)}>Go there</Button>
          )}
          <Button onClick={draft.restore}>Back to the last valid JSON</Button>
        </div>
      )}
    </section>
  );
}
