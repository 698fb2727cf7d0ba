// The doctor's checks run one after another; each has a name, a finding, and what to do about it. A check
// never throws and never changes anything; repairs are requested separately.

import { AgentError, messageOf, systemWords } from "../../domain/error.ts";
import type { Wall } from "../../domain/host.ts";

/** The outcome of a check. `skipped`: it does not apply here, or something it needs is missing. */
export type Outcome = "ok" | "warn" | "fail" | "skipped";

/** The outcome of one check, its cause, and the remedy. */
export interface HealthFinding {
  readonly outcome: Outcome;
  /** State found, and required where it differs. */
  readonly detail: string;
  /** What an operator can do: a command line, or a sentence. */
  readonly fix?: string;
  /** The walls one by one, for a finding about walls. */
  readonly parts?: readonly Wall[];
  /** Repairs what is safe to repair without another question. */
  readonly repair?: () => Promise<void>;
}

/** One check: it examines a thing and changes nothing. */
export interface HealthCheck {
  readonly name: string;
  /** What it examines, for `doctor --list`. */
  readonly about: string;
  examine(): Promise<HealthFinding>;
}

/** A finding with its check's name, as it is shown. */
export interface Diagnosis extends Omit<HealthFinding, "repair"> {
  readonly name: string;
  readonly repaired: boolean;
}

/** Milliseconds for one check: a host that hangs must not hang the doctor. */
const CHECK_MS = 30_000;
/** Repairs in a row of one check, since a repair may reveal the next problem. */
const REPAIRS_MAX = 3;

/** @param detail what was found to be in order */
export function ok(detail: string): HealthFinding {
  return { outcome: "ok", detail };
}

/** @param detail why the check does not apply to this configuration or host */
export function skipped(detail: string): HealthFinding {
  return { outcome: "skipped", detail };
}

/**
 * Runs the checks, and repairs where that is requested and safe.
 * @param onDiagnosis called with each result when it is there
 */
export async function diagnose(
  checks: readonly HealthCheck[],
  { repair, onDiagnosis }: { repair: boolean; onDiagnosis: (one: Diagnosis) => void },
): Promise<Diagnosis[]> {
  const all: Diagnosis[] = [];
  for (const check of checks) {
    const diagnosis = await diagnoseOne(check, repair);
    onDiagnosis(diagnosis);
    all.push(diagnosis);
  }
  return all;
}

async function diagnoseOne(check: HealthCheck, repair: boolean): Promise<Diagnosis> {
  const { name } = check;
  let found = await examined(check);
  let repaired = false;
  // A repair may uncover another problem.
  for (let turn = 0; repair && found.repair !== undefined && turn < REPAIRS_MAX; turn++) {
    try {
      await found.repair();
    } catch (error) {
      const detail = `${found.detail}; not repaired: ${systemWords(error)}`;
      return { name, ...withoutRepair(found), detail, repaired: false };
    }
    found = await examined(check);
    repaired = true;
  }
  // Reported as repaired only if nothing repairable is left.
  return { name, ...withoutRepair(found), repaired: repaired && found.repair === undefined };
}

function withoutRepair({ repair: _, ...rest }: HealthFinding): Omit<HealthFinding, "repair"> {
  return rest;
}

/** Turns an error of a check into a finding. */
async function examined(check: HealthCheck): Promise<HealthFinding> {
  const late = Promise.withResolvers<HealthFinding>();
  const detail = `no answer within ${CHECK_MS / 1000} s`;
  const timer = setTimeout(() => late.resolve({ outcome: "fail", detail }), CHECK_MS);
  try {
    return await Promise.race([check.examine(), late.promise]);
  } catch (error) {
    const cause = error instanceof AgentError ? error.cause : error;
    if (cause instanceof Deno.errors.PermissionDenied) {
      const fix = "run the doctor as the user of the agent, or as root";
      return { outcome: "fail", detail: `not allowed: ${systemWords(cause)}`, fix };
    }
    const words = error instanceof AgentError
      ? error.message
      : `internal error: ${messageOf(error)}`;
    return { outcome: "fail", detail: words };
  } finally {
    clearTimeout(timer);
  }
}
