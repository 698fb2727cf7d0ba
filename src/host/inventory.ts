// The resources of the managed host: processors, memory and the space in its pool, as its own programs report them.
// Nothing here changes the host.

import { AgentError } from "../domain/error.ts";
import type { HostHardware, HostPool } from "../domain/host.ts";
import { isJsonObject, type JsonObject } from "../domain/json.ts";
import type { CommandResult } from "./program.ts";
import { describeResult } from "./program_output.ts";
import type { Transport } from "./transport.ts";

/** Milliseconds per query, unless canceled sooner. */
const ASK_MS_MAX = 30_000;
/** The pool of all machines; no payload may choose another. */
export const POOL = "zones";
/** Characters of a program's output in an error. */
const WORDS_CHARS_MAX = 200;

/** What a program of the host reported, or why there is no answer. */
export type HostAnswer<T> = { readonly value: T } | { readonly unasked: string };

/**
 * Asks sysinfo. Only the fields named here are read: the output also contains the boot parameters, which may
 * include root's password.
 * @throws {AgentError} `aborted`
 */
export async function askSystem(
  transport: Transport,
  signal?: AbortSignal,
): Promise<HostAnswer<HostHardware>> {
  const answer = await answerOf(transport, "sysinfo", [], signal);
  if ("unasked" in answer) return answer;
  let said: unknown;
  try {
    said = JSON.parse(answer.value);
  } catch {
    return { unasked: "it printed no JSON" };
  }
  if (!isJsonObject(said)) return { unasked: "it printed no JSON object" };
  return {
    value: {
      hostname: textOf(said, "Hostname"),
      platform: textOf(said, "Live Image"),
      cpu: textOf(said, "CPU Type"),
      cpus: countOf(said, "CPU Total Cores"),
      ram_mib: countOf(said, "MiB of Memory"),
      hvm: typeof said["VM Capable"] === "boolean" ? said["VM Capable"] : null,
    },
  };
}

function textOf(said: JsonObject, name: string): string | null {
  const value = said[name];
  return typeof value === "string" && value !== "" ? value.slice(0, WORDS_CHARS_MAX) : null;
}

/** Some versions print numbers as strings. */
function countOf(said: JsonObject, name: string): number | null {
  const value = said[name];
  const count = typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : value;
  return typeof count === "number" && Number.isSafeInteger(count) && count >= 0 ? count : null;
}

/**
 * Asks zfs for the space in the pool of the machines.
 * @throws {AgentError} `aborted`
 */
export async function askPool(
  transport: Transport,
  signal?: AbortSignal,
): Promise<HostAnswer<HostPool>> {
  const answer = await answerOf(
    transport,
    "zfs",
    ["list", "-Hp", "-o", "used,available", POOL],
    signal,
  );
  if ("unasked" in answer) return answer;
  const [, used, free] = /^(\d{1,20})\t(\d{1,20})\n?$/.exec(answer.value) ?? [];
  if (used === undefined || free === undefined) {
    return { unasked: `it said ${JSON.stringify(answer.value.slice(0, WORDS_CHARS_MAX))}` };
  }
  return { value: { name: POOL, used_bytes: Number(used), free_bytes: Number(free) } };
}

/**
 * What a program of the host prints.
 * @throws {AgentError} `aborted`
 */
export async function answerOf(
  transport: Transport,
  program: "dladm" | "nictagadm" | "sysinfo" | "zfs",
  args: readonly string[],
  signal: AbortSignal | undefined,
): Promise<HostAnswer<string>> {
  let result: CommandResult;
  try {
    result = await transport[program](args, {
      deadlineMs: ASK_MS_MAX,
      ...(signal === undefined ? {} : { signal }),
    });
  } catch (error) {
    const isSilent = error instanceof AgentError && ["host", "timeout"].includes(error.code);
    if (isSilent) return { unasked: error.message };
    throw error;
  }
  if (result.code === 0) return { value: result.stdout };
  // Without any output of sysinfo; see askSystem().
  const shown = program === "sysinfo" ? { ...result, stdout: "" } : result;
  return { unasked: `${JSON.stringify([program, ...args].join(" "))} ${describeResult(shown)}` };
}
