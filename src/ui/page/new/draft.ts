// The draft of a machine request: one JSON value, which both the form and the JSON editor show and change.
// Anything the form does not know is kept.

import { type Signal, signal } from "@preact/signals";
import { jsonMistake } from "../../../domain/json_problem.ts";

/** A JSON object as parsed; its values are not checked. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** The place of a value in the request: names, and indexes of lists. */
export type Path = readonly (string | number)[];

/** A draft of a request. */
export interface Draft {
  /** The text as the user edits it. */
  readonly text: Signal<string>;
  /** The last text that could be parsed. */
  readonly request: Signal<JsonObject>;
  /** Why the text cannot be parsed; the form is disabled while there is one. */
  readonly problem: Signal<Pick<TextProblem, "message"> & Partial<TextProblem> | undefined>;
  /** Replaces the text as it is typed. */
  edit(text: string): void;
  /** Sets a value in the request; undefined removes it. */
  set(path: Path, value: unknown): void;
  /** Replaces the text by that of the last request that could be parsed. */
  restore(): void;
}

/** Key under which a draft is kept while other pages are shown. */
const DRAFT_KEY = "new machine";

/** The draft that the user left, if there is one. */
export function keptDraft(): Draft | undefined {
  const text = sessionStorage.getItem(DRAFT_KEY);
  return text === null ? undefined : openDraft(text);
}

/** Drops the kept draft: its machine was created. */
export function forgetDraft(): void {
  sessionStorage.removeItem(DRAFT_KEY);
}

/** A draft of a text. */
export function openDraft(first: string): Draft {
  const text = signal("");
  const request = signal<JsonObject>({});
  const problem: Draft["problem"] = signal(undefined);
  const draft: Draft = {
    text,
    request,
    problem,
    edit(typed) {
      text.value = typed;
      sessionStorage.setItem(DRAFT_KEY, typed);
      const read = readText(typed);
      if (read.kind === "broken") {
        problem.value = read.problem;
        return;
      }
      const message = shapeProblem(read.value);
      problem.value = message === undefined ? undefined : { message };
      // shapeProblem() has just checked it.
      if (message === undefined) request.value = read.value as JsonObject;
    },
    set(path, value) {
      draft.edit(textOf(withValue(request.value, path, value)));
    },
    restore: () => draft.edit(textOf(request.value)),
  };
  draft.edit(first);
  return draft;
}

/** A request as it is shown. */
export function textOf(request: unknown): string {
  return JSON.stringify(request, null, 2);
}

/** Why the form cannot show a value, in words. */
function shapeProblem(value: unknown): string | undefined {
  if (!isObject(value)) return 'Expected an object: {"machine": …, "media": …}';
  const { machine, media } = value;
  if (!isObject(machine)) {
    return "brand" in value
      ? 'This is a description: put it under "machine", beside "media"'
      : 'Expected an object under "machine"';
  }
  for (const name of ["disks", "nics"] as const) {
    const list = machine[name];
    if (list !== undefined && !(Array.isArray(list) && list.every(isObject))) {
      return `Expected a list of objects under "machine.${name}"`;
    }
  }
  return media === undefined || isObject(media) ? undefined : 'Expected an object under "media"';
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value at a place; undefined when there is none. */
export function valueAt(value: unknown, path: Path): unknown {
  let found = value;
  for (const step of path) {
    if (Array.isArray(found)) found = found[Number(step)];
    else found = isObject(found) && Object.hasOwn(found, step) ? found[step] : undefined;
  }
  return found;
}

/** The objects of a list of the request. */
export function objectsAt(value: unknown, path: Path): readonly JsonObject[] {
  const found = valueAt(value, path);
  return Array.isArray(found) ? found.filter(isObject) : [];
}

/** A value as a field shows it. */
export function fieldText(value: unknown): string {
  return value === undefined || value === null ? "" : String(value);
}

/** A copy with one value changed; the order and everything else stay. */
function withValue(value: unknown, path: Path, next: unknown): unknown {
  const [step, ...rest] = path;
  if (step === undefined) return next;
  if (typeof step === "number") {
    const list: readonly unknown[] = Array.isArray(value) ? value : [];
    const inner = withValue(list[step], rest, next);
    return inner === undefined ? list.toSpliced(step, 1) : list.toSpliced(step, 1, inner);
  }
  const fields = isObject(value) ? value : {};
  const inner = withValue(fields[step], rest, next);
  if (inner !== undefined) return { ...fields, [step]: inner };
  return Object.fromEntries(Object.entries(fields).filter(([name]) => name !== step));
}

/** The path of a field as the agent names it: `machine.disks[0].size`. */
export function pathText(path: Path): string {
  return path.map((step, at) =>
    typeof step === "number" ? `[${step}]` : at === 0 ? step : `.${step}`
  )
    .join("");
}

/** Why a text is not JSON. */
interface TextProblem {
  readonly message: string;
  /** Number of characters before the problem. */
  readonly at: number;
  /** Of that place, from 1. */
  readonly line: number;
  readonly column: number;
}

type TextValue =
  | { readonly kind: "value"; readonly value: unknown }
  | { readonly kind: "broken"; readonly problem: TextProblem };

/**
 * Parses a JSON text while it is being typed, or finds the character at which it is broken, in the
 * same words in every browser.
 */
function readText(text: string): TextValue {
  try {
    return { kind: "value", value: JSON.parse(text) as unknown };
  } catch {
    const mistake = jsonMistake(text) ??
      { at: 0, line: 1, column: 1, found: "a text", expected: "JSON" };
    const { at, line, column, found, expected } = mistake;
    const message = `Line ${line}, column ${column}: found ${found}, expected ${expected}`;
    return { kind: "broken", problem: { at, line, column, message } };
  }
}
