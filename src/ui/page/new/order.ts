// Orders a machine: the dry run of a draft, and the request itself, which creates one machine however often
// it is sent.

import { signal } from "@preact/signals";
import { type Call, fieldErrorsOf, pause, send, statusOf, wordsOf } from "../../client/client.ts";
import type { Answers, Schemas } from "../../client/schema.ts";
import { announce } from "../../browser.ts";
import type { Draft } from "./draft.ts";
import type { JsonObject } from "./json_text.ts";

/** Why a request is refused: in one line, and the field that it is about. */
export interface Refusal {
  readonly message: string;
  /** Its path in the request; undefined when it is about none. */
  readonly field?: string;
}

/** How far the draft, its dry run or the order itself is. */
type OrderState =
  | { readonly kind: "writing" }
  | { readonly kind: "checking" }
  /** `unchecked`: what the host could not be asked. Bytes. */
  | {
    readonly kind: "possible";
    readonly medium: Schemas["MachineDryRun"]["medium"];
    readonly unchecked: readonly string[];
  }
  | { readonly kind: "refused"; readonly refusals: readonly Refusal[] }
  /** `cuts`: answers that did not come; it is asked again. */
  | { readonly kind: "sending"; readonly cuts: number }
  | { readonly kind: "made"; readonly uuid: string; readonly job_uuid: string };

const PATH = "/agent/v1/machines";
const KEY_BYTES = 16;
/** Milliseconds before an order without an answer is sent again: twice as many after each. */
const RESEND_FIRST_MS = 500;
const RESEND_MAX_MS = 5_000;
/** Milliseconds without an edit after which a draft that was checked is checked again. */
const QUIET_MS = 700;

/** The order of a draft. */
export function openOrder(draft: Draft) {
  const state = signal<OrderState>({ kind: "writing" });
  /** Every refusal by its field, until the next answer. */
  const errors = signal<ReadonlyMap<string, string>>(new Map());
  const closing = new AbortController();
  const callOf = openCalls(draft);
  let checks = 0;
  let timer: number | undefined;

  /** Ends the check before. @returns whether the draft can be sent */
  const begin = () => {
    clearTimeout(timer);
    checks += 1;
    return !isBusy(state.value) && draft.problem.value === undefined;
  };
  const settle = (found: OrderState) => {
    errors.value = errorsOf(found);
    state.value = found;
    if (found.kind === "possible") announce("The request would be accepted");
    if (found.kind !== "refused") return;
    announce(`Refused: ${found.refusals.map(({ message }) => message).join("; ")}`);
  };
  const check = async () => {
    if (!begin()) return;
    const mine = checks;
    state.value = { kind: "checking" };
    const found = await dryRun(draft, closing.signal);
    if (mine === checks && !closing.signal.aborted) settle(found);
  };
  const create = async () => {
    if (!begin()) return;
    const onCut = (cuts: number) => state.value = { kind: "sending", cuts };
    onCut(0);
    const found = await placed(callOf(), closing.signal, onCut);
    if (!closing.signal.aborted) settle(found);
  };
  return {
    state,
    errors,
    callOf,
    check,
    create,
    /** Once a draft was checked it is checked again when it has changed. */
    changed() {
      clearTimeout(timer);
      if (state.value.kind === "writing" || isBusy(state.value)) return;
      checks += 1;
      timer = setTimeout(() => void check(), QUIET_MS);
    },
    close() {
      clearTimeout(timer);
      closing.abort();
    },
  };
}

/** The call that asks what would become of a draft. */
export function dryRunOf(draft: Draft): Call {
  const body = { ...bodyOf(draft.request.value), dry_run: true };
  return { method: "POST", path: PATH, body };
}

/** What would become of a draft. */
async function dryRun(
  draft: Draft,
  signal: AbortSignal,
): Promise<OrderState & { readonly kind: "possible" | "refused" }> {
  try {
    const answer = await ordered(dryRunOf(draft), signal);
    if (!("dry_run" in answer)) throw new Error("The agent made a machine of a dry run");
    const { medium, unchecked, problems } = answer;
    if (problems.length === 0) return { kind: "possible", medium, unchecked };
    return { kind: "refused", refusals: problems.flatMap(refusalsOf) };
  } catch (error) {
    return { kind: "refused", refusals: refusalsIn(error) };
  }
}

/** @returns the call of the draft as it is: a request has one key as long as it stays the same */
function openCalls(draft: Draft): () => Call {
  let key = { text: "", value: "" };
  return () => {
    const body = bodyOf(draft.request.value);
    const text = JSON.stringify(body);
    if (key.text !== text) key = { text, value: newKey() };
    return { method: "POST", path: PATH, body, headers: { "idempotency-key": key.value } };
  };
}

/** Sends an order until it is answered: where an answer was cut, the agent may have it, and knows its key. */
async function placed(
  call: Call,
  signal: AbortSignal,
  onCut: (cuts: number) => void,
): Promise<OrderState & { readonly kind: "made" | "refused" }> {
  // Ends with an answer, or with the page.
  for (let cuts = 1;; cuts++) {
    try {
      const made = await ordered(call, signal);
      if ("dry_run" in made) throw new Error("The agent took the order for a dry run");
      return { kind: "made", uuid: made.uuid, job_uuid: made.job_uuid };
    } catch (error) {
      if (statusOf(error) !== 0) return { kind: "refused", refusals: refusalsIn(error) };
    }
    onCut(cuts);
    await pause(Math.min(RESEND_FIRST_MS * 2 ** cuts, RESEND_MAX_MS), signal);
  }
}

async function ordered(call: Call, signal: AbortSignal) {
  return await send(call, signal) as Answers["POST /agent/v1/machines"];
}

/** What openOrder() returns. @see openOrder */
export type Order = ReturnType<typeof openOrder>;

/** Whether an order is on its way. */
export function isBusy({ kind }: OrderState): boolean {
  return kind === "sending" || kind === "made";
}

/** The request without the word that makes it a dry run. */
function bodyOf({ dry_run: _, ...request }: JsonObject): JsonObject {
  return request;
}

/** Random; a page that did not come by TLS has no randomUUID(). */
function newKey(): string {
  return crypto.getRandomValues(new Uint8Array(KEY_BYTES))
    .reduce((text, byte) => text + byte.toString(16).padStart(2, "0"), "");
}

function refusalsIn(error: unknown): readonly Refusal[] {
  return refusalsOf({ message: wordsOf(error), errors: fieldErrorsOf(error) });
}

/** A line for each field that is named, or one for all. */
function refusalsOf(
  { message, errors }: {
    readonly message: string;
    readonly errors: readonly Schemas["FieldError"][];
  },
): readonly Refusal[] {
  if (errors.length === 0) return [{ message }];
  return errors.map(({ field, message: words }) => ({ field, message: words }));
}

function errorsOf(state: OrderState): ReadonlyMap<string, string> {
  const refusals = state.kind === "refused" ? state.refusals : [];
  return new Map(
    refusals.flatMap(({ field, message }) =>
      field === undefined ? [] : [[field, message] as const]
    ),
  );
}
