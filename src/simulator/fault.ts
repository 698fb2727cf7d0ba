// Faults of the simulated host. They are stored in its folder, since callers clear the environment. Each is
// one way in which the documented tool is known to fail, or must be expected to. docs/simulator.md explains
// each by name.

import { join } from "@std/path";
import { AgentError } from "../domain/error.ts";
import { isJsonObject, type JsonObject } from "../domain/json.ts";
import { canonicalSubcommand, SUBCOMMANDS } from "./call.ts";
import { locked, openState, readJson, sleep, type State, writeJson } from "./host_folder.ts";

/** What the value of a fault means: only a count, a subcommand, milliseconds, or a text. */
type FaultValue = "count" | "subcommand" | "milliseconds" | "text";

/** Every fault, with the meaning of its value. */
export const FAULTS = {
  out_of_space: "count",
  conflict: "count",
  create_killed_after_datasets: "count",
  create_killed_after_zonecfg: "count",
  create_killed_after_install: "count",
  create_without_message: "count",
  create_without_machine: "count",
  provision_timeout: "count",
  validate_refuses: "count",
  start_failure: "count",
  start_timeout: "count",
  start_dies: "count",
  acpi_ignored: "count",
  delete_busy: "count",
  delete_leaks: "count",
  info_empty: "count",
  info_500: "count",
  info_refused: "count",
  info_cut: "count",
  info_missing_port: "count",
  info_missing_host: "count",
  info_wrong_host: "text",
  vnc_refuse: "count",
  vnc_silent: "count",
  vnc_close: "count",
  vnc_old: "count",
  vnc_slow: "milliseconds",
  hang: "subcommand",
  hang_after: "subcommand",
  killed: "subcommand",
  aborted: "subcommand",
  empty: "subcommand",
  garbage: "subcommand",
  flood: "subcommand",
  noise_stdout: "subcommand",
  noise_stderr: "subcommand",
  slow: "milliseconds",
  vminfod_down: "count",
  vmadmd_down: "count",
  no_global_zone: "count",
  no_root: "count",
} as const satisfies Record<string, FaultValue>;

/** A name in {@linkcode FAULTS}. @see docs/simulator.md, Faults */
export type FaultName = keyof typeof FAULTS;

interface Fault {
  /** Subcommand, milliseconds or text; null if the fault takes none or applies to all subcommands. */
  readonly value: string | null;
  /** How many more times it strikes; null for until it is cleared. */
  readonly left: number | null;
}

function faultsFile(state: State): string {
  return join(state.dir, "faults.json");
}

/**
 * Switches a fault on. `words` is `[VALUE] [COUNT]`; a fault that takes no value takes `[COUNT]`.
 * @throws {AgentError} `invalid_argument` for an unknown name or an improper value
 */
export async function setFault(
  state: State,
  name: string,
  words: readonly string[],
): Promise<void> {
  const fault = parseFault(name, words);
  await locked(state.dir, async () => {
    const faults = await readJson(faultsFile(state)) ?? {};
    await writeJson(faultsFile(state), { ...faults, [name]: fault });
  });
}

/** Switches one fault off, or all of them. */
export async function clearFaults(state: State, name: string | null): Promise<void> {
  await locked(state.dir, async () => {
    const faults = name === null ? {} : await readJson(faultsFile(state)) ?? {};
    if (name !== null) delete faults[name];
    await writeJson(faultsFile(state), faults);
  });
}

/** Those that are on, with their values; empty without a file of faults. */
export async function listFaults(state: State): Promise<JsonObject> {
  return await readJson(faultsFile(state)) ?? {};
}

function parseFault(name: string, words: readonly string[]): Fault {
  if (!isFaultName(name)) {
    throw new AgentError(
      "invalid_argument",
      `Cannot set fault "${name}", expected one of ${Object.keys(FAULTS).join(", ")}`,
    );
  }
  const kind: FaultValue = FAULTS[name];
  const [value, count] = kind === "count" ? [undefined, words[0]] : [words[0], words[1]];
  const numbers = kind === "milliseconds" ? [value, count] : [count];
  const missing = kind === "milliseconds" && value === undefined;
  if (missing || numbers.some((word) => word !== undefined && !/^[0-9]{1,9}$/.test(word))) {
    const found = JSON.stringify(words.join(" "));
    throw new AgentError(
      "invalid_argument",
      `Cannot set fault "${name}": found ${found}, expected a number`,
    );
  }
  const all = value === undefined || value === "*";
  const subcommand = all ? null : canonicalSubcommand(value);
  if (kind === "subcommand" && subcommand !== null) {
    if (SUBCOMMANDS.every((known) => known !== subcommand)) {
      throw new AgentError(
        "invalid_argument",
        `Cannot set fault "${name}": found ${
          JSON.stringify(value)
        }, expected a subcommand of vmadm`,
      );
    }
    return { value: subcommand, left: count === undefined ? null : Number(count) };
  }
  return { value: all ? null : value, left: count === undefined ? null : Number(count) };
}

function isFaultName(name: string): name is FaultName {
  return Object.hasOwn(FAULTS, name);
}

/** Whether a fault strikes now, which counts. */
export async function strikes(state: State, name: FaultName): Promise<boolean> {
  return await strike(state, name) !== null;
}

/** Whether a fault of one subcommand strikes now. */
export async function strikesOn(
  state: State,
  name: FaultName,
  subcommand: string,
): Promise<boolean> {
  return await strike(state, name, subcommand) !== null;
}

/** Milliseconds of a fault that slows something down, 0 while it is off. */
export async function faultMs(state: State, name: "slow" | "vnc_slow"): Promise<number> {
  return Number((await strike(state, name))?.value ?? 0);
}

/** The text of a fault that strikes now, or null while it is off. */
export async function faultText(state: State, name: "info_wrong_host"): Promise<string | null> {
  const fault = await strike(state, name);
  return fault === null ? null : fault.value ?? "192.0.2.1";
}

async function strike(
  state: State,
  name: FaultName,
  subcommand: string | null = null,
): Promise<Fault | null> {
  // Most calls meet no fault at all and need not wait for the lock.
  if (!hits((await listFaults(state))[name], subcommand)) return null;
  return await locked(state.dir, async () => {
    const faults = await listFaults(state);
    const fault = hits(faults[name], subcommand);
    if (fault === null) return null;
    if (fault.left === 1) delete faults[name];
    else if (fault.left !== null) {
      faults[name] = { value: fault.value, left: fault.left - 1 };
    }
    if (fault.left !== null) await writeJson(faultsFile(state), faults);
    return fault;
  });
}

function hits(entry: unknown, subcommand: string | null): Fault | null {
  if (!isJsonObject(entry)) return null;
  const value = typeof entry.value === "string" ? entry.value : null;
  const left = typeof entry.left === "number" ? entry.left : null;
  if (left === 0) return null;
  if (subcommand !== null && value !== null && value !== subcommand) return null;
  return { value, left };
}

/** Phases that take time, by their delay in host.json. */
type SlowPhase = Exclude<keyof State["host"]["delays"], "factor">;

/** Milliseconds between two checks whether the delay of the current phase has changed. */
const DELAY_LOOK_MS = 200;

/**
 * Spends the time of one phase: its delay times the factor, plus the fault `slow`. A delay changed in
 * host.json takes effect at once, even for the current phase.
 */
export async function spend(state: State, phase: SlowPhase): Promise<void> {
  const beganMs = performance.now();
  const slowMs = await faultMs(state, "slow");
  for (let { delays } = state.host;; { host: { delays } } = await openState(state.dir)) {
    const leftMs = delays[phase] * delays.factor + slowMs - (performance.now() - beganMs);
    if (leftMs <= 0) return;
    await sleep(Math.min(leftMs, DELAY_LOOK_MS));
  }
}

/** Ends this program as kill -9 does: nothing is written, nothing is released. */
export function die(signal: "SIGKILL" | "SIGABRT"): Promise<never> {
  Deno.kill(Deno.pid, signal);
  return new Promise(() => {});
}
