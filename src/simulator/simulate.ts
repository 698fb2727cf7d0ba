// A simulated SmartOS host, as a program with its state in a folder. It follows the documented
// behaviour of vmadm, its texts, streams, exit codes and states, and was written without a SmartOS
// host at hand: it is as good as what is published about the tool. See docs/simulator.md.
//
//   zonewright simulate --state DIR vmadm SUBCOMMAND ...
//   zonewright simulate --state DIR zfs list|destroy ...
//   zonewright simulate --state DIR nictagadm list [-p]
//   zonewright simulate --state DIR fault [NAME [VALUE] [COUNT]] | fault --clear [NAME]
//   zonewright simulate --state DIR guest UUID [power-off|reset|crash|proxy-restart]
//   zonewright simulate --state DIR engine [fake|qemu|auto]
//   zonewright simulate --state DIR audit | stop-all | power-cycle [--autoboot]
//   zonewright simulate --state DIR run-machine UUID BOOT_ID      (started by `vmadm start` only)

import { messageOf } from "../domain/error.ts";
import { leftovers } from "./audit.ts";
import { canonicalSubcommand } from "./call.ts";
import { chooseEngine } from "./engine/engine.ts";
import { clearFaults, listFaults, setFault } from "./fault.ts";
import { actOnGuest, describeGuest, powerCycle, stopAll } from "./host_event.ts";
import { runMachine } from "./engine/machine_process.ts";
import { failed, type Outcome, printed, printedJson } from "./outcome.ts";
import { spoil, writeOutcome } from "./output.ts";
import { nictagadm } from "./nictagadm.ts";
import { openState, type State } from "./state.ts";
import { vmadm } from "./vmadm/vmadm.ts";
import { zfs } from "./host_tools.ts";

const USAGE = "Usage: simulate --state DIR vmadm|fault|guest|engine|audit|stop-all|power-cycle ...";

/**
 * Runs one call of the simulator: the words after `zonewright simulate`.
 * @returns the exit code of this process
 * @see docs/simulator.md
 */
export async function simulate(args: string[]): Promise<number> {
  const outcome = await outcomeOf(args);
  await writeOutcome(outcome);
  return outcome.code;
}

/**
 * What one call says, without saying it. Whoever sets up a host may use it without a process of its
 * own; `vmadm` and `zfs` belong into one, since a fault may end it.
 */
export async function outcomeOf(args: readonly string[]): Promise<Outcome> {
  const [flag, dir = "", face = "", ...rest] = args;
  if (flag !== "--state" || dir === "") return { ...failed(USAGE), code: 2 };
  let state: State;
  try {
    state = await openState(dir);
  } catch (error) {
    return failed(`Cannot open simulated host ${dir}: ${messageOf(error)}`);
  }
  if (face === "vmadm") {
    return await spoil(
      state,
      canonicalSubcommand(rest[0] ?? ""),
      await vmadm(state, rest),
    );
  }
  if (face === "zfs") return await zfs(state, rest);
  if (face === "nictagadm") return nictagadm(state, rest);
  try {
    return await act(state, face, rest);
  } catch (error) {
    return failed(messageOf(error));
  }
}

async function act(state: State, face: string, args: readonly string[]): Promise<Outcome> {
  const [first = "", second = ""] = args;
  switch (face) {
    case "run-machine":
      return { ...printed(""), code: await runMachine(state, first, second) };
    case "fault":
      return await fault(state, args);
    case "guest":
      if (second === "") return printedJson(await describeGuest(state, first));
      await actOnGuest(state, first, second);
      return printed("");
    case "engine": {
      const { engine, emulator } = state.host;
      if (first === "") return printedJson({ engine, ...(emulator === "" ? {} : { emulator }) });
      return printedJson({ engine: await chooseEngine(state, first, Deno.env.get("PATH") ?? "") });
    }
    case "audit": {
      const found = await leftovers(state);
      return { ...printedJson({ leftovers: found }), code: found.length === 0 ? 0 : 1 };
    }
    case "stop-all":
      await stopAll(state);
      return printed("");
    case "power-cycle":
      await powerCycle(state, args.includes("--autoboot"));
      return printed("");
    default:
      return { ...failed(USAGE), code: 2 };
  }
}

async function fault(state: State, args: readonly string[]): Promise<Outcome> {
  const [first, second] = args;
  if (first === undefined) return printedJson(await listFaults(state));
  if (first === "--clear") await clearFaults(state, second ?? null);
  else await setFault(state, first, args.slice(1));
  return printed("");
}
