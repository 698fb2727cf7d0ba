// Calls of the system that fail, the first one, the second one and so on, in a life of the agent
// under load. A failed fsync ends the agent, since nobody knows what of its file is on the disk; any
// other failure may end it or is answered with a refusal. Either way, what was acknowledged is there
// afterwards.

import { assert } from "@std/assert";
import { join } from "@std/path";
import { programTest, requireProgram } from "../support/program.ts";
import { until, withDeadline, withFolder } from "../support/until.ts";
import {
  beginAgent,
  type ChaosAgent,
  killAgent,
  length,
  startChaosAgent,
} from "./agent_under_chaos.ts";
import { expectWholeDatabase } from "./database.ts";
import { BrokenPromise } from "./history.ts";
import { callTogether } from "./load.ts";
import { randomOf } from "./random.ts";
import { Survey } from "./survey.ts";
import { PATIENT_WORKLOADS } from "./workloads.ts";
import { programOfRun } from "../support/agent_process.ts";

const CALLERS = 4;
/** Acknowledged writes of a load after the call has failed. */
const WRITES_AFTER = 40;
/** Acknowledged writes after which a call that has not failed never will. */
const WRITES_MAX = 400;
/** Files are opened at the start, so that calls to open them come to an end. */
const OPENS_MIN = 3;
const OPENS_MAX = 20;
/** Writes that arrive together share one sync: how many syncs a life needs depends on the machine. */
const SYNCS_MIN = 20;
/** Pages that every life writes. */
const PAGES_MIN = 300;
/** Milliseconds in which an agent whose store is broken has ended, its running tasks included. */
const ENDED_MS_MAX = 90_000;

/** A call of the system that fails. */
interface Fault {
  readonly calls: string;
  readonly error: string;
  /** Which call of these in the life of the agent. */
  readonly nth: readonly number[];
  /** Calls that every life makes; later ones may never be made. */
  readonly least: number;
  /** Whether the agent has to end. */
  readonly ends: boolean;
}

function upTo(last: number): number[] {
  return Array.from({ length: last }, (_, at) => at + 1);
}

const FAULTS: readonly Fault[] = [
  {
    calls: "fsync,fdatasync",
    error: "EIO",
    nth: length({ quick: [4], full: upTo(60) }),
    least: SYNCS_MIN,
    ends: true,
  },
  {
    calls: "pwrite64",
    error: "ENOSPC",
    nth: length({ quick: [80], full: upTo(60).map((at) => at * 5) }),
    least: PAGES_MIN,
    ends: false,
  },
  {
    calls: "pwrite64",
    error: "EIO",
    nth: length({ quick: [120], full: upTo(60).map((at) => at * 5 - 2) }),
    least: PAGES_MIN,
    ends: false,
  },
  {
    calls: "openat",
    error: "EMFILE",
    nth: upTo(OPENS_MAX),
    least: OPENS_MIN,
    ends: false,
  },
];

for (const fault of FAULTS) {
  const name = `nothing acknowledged is lost when ${fault.calls} fails with ${fault.error}`;
  programTest("strace", fault.ends ? `${name}, and the agent ends` : name, async () => {
    const reported = [];
    for (const nth of fault.nth) {
      const how = await withFolder((folder) => failOnce(fault, nth, folder));
      if (how === "never made") {
        assert(nth > fault.least, `call ${nth} was never made`);
        break;
      }
      reported.push(`${nth} ${how}`);
    }
    console.log(`${fault.calls} ${fault.error}: ${reported.join(", ")}`);
  });
}

/** One life in which one call fails, and one after it. @returns in words, what came of it */
async function failOnce(fault: Fault, nth: number, folder: string): Promise<string> {
  const program = programOfRun();
  const stateDir = join(folder, "state");
  const survey = new Survey(randomOf(nth));
  const first = await startChaosAgent({ program, stateDir });
  survey.jobs.lives += 1;
  await survey.makeWorkflows(first);
  await killAgent(first);

  const trace = join(folder, "trace");
  survey.jobs.lives += 1;
  const failing = beginAgent({ program, stateDir, around: around(fault, nth, stateDir, trace) });
  try {
    const agent = await failing.started;
    const went = "url" in agent ? await live(fault, survey, agent, trace) : "ended";
    if (!await injected(trace)) return "never made";
    if (went === "ended" || fault.ends) await expectEnd(failing);
    await killAgent(failing);
    expectWholeDatabase(stateDir);
    await expectEverythingKept(survey, stateDir);
    return "url" in agent ? went : "ended at the start";
  } catch (error) {
    const words = failing.log().split("\n").filter((line) => !line.includes('"level":"info"'));
    throw new Error(`With call ${nth}: ${error}\n${words.join("\n")}`, { cause: error });
  } finally {
    await killAgent(failing);
  }
}

/** An agent in order starts on what is left, and everything is there and comes to its end. */
async function expectEverythingKept(survey: Survey, stateDir: string): Promise<void> {
  const last = await startChaosAgent({ program: programOfRun(), stateDir });
  survey.jobs.lives += 1;
  try {
    await survey.leaveAlone(last);
  } finally {
    await killAgent(last);
  }
}

/** Only calls about the database count; of threads, each counts its own. */
function around({ calls, error }: Fault, nth: number, stateDir: string, trace: string): string[] {
  const files = ["", "/zonewright.db", "/zonewright.db-wal", "/zonewright.db-shm"];
  return [
    requireProgram("strace") ?? "strace",
    ...["-f", "--seccomp-bpf", "-D", "-qq", "-o", trace],
    ...files.flatMap((file) => ["-P", `${stateDir}${file}`]),
    ...["-e", `trace=${calls}`, "-e", `inject=${calls}:error=${error}:when=${nth}`],
  ];
}

async function injected(trace: string): Promise<boolean> {
  return (await Deno.readTextFile(trace)).includes("(INJECTED)");
}

/** After an answer of these statuses nobody knows whether the write will be there. */
const UNKNOWN = [500, 503, 507];

/** A load until the call has failed and somebody has felt it; then, if it may go on, another one. */
async function live(
  fault: Fault,
  survey: Survey,
  agent: ChaosAgent,
  trace: string,
): Promise<"ended" | "went on"> {
  let left = WRITES_MAX;
  const load = callTogether(
    survey.deps(agent, {
      workloads: PATIENT_WORKLOADS,
      unknown: UNKNOWN,
      acknowledged: () => left -= 1,
      over: () => left <= 0,
    }),
    CALLERS,
  );
  await Promise.race([load, until("the call to fail", () => left <= 0 || injected(trace))]);
  left = fault.ends ? WRITES_MAX : Math.min(left, WRITES_AFTER);
  await load;
  if (fault.ends) return "ended";
  try {
    await survey.lookAtEverything(agent);
    left = WRITES_AFTER;
    const deps = survey.deps(agent, {
      workloads: PATIENT_WORKLOADS,
      acknowledged: () => left -= 1,
      over: () => left <= 0,
    });
    await callTogether(deps, CALLERS);
  } catch (error) {
    if (error instanceof BrokenPromise || !await endsSoon(agent)) throw error;
  }
  return left <= 0 ? "went on" : "ended";
}

async function endsSoon(agent: ChaosAgent): Promise<boolean> {
  const ended = withDeadline(agent.ended, ENDED_MS_MAX, () => "the agent to end");
  return await ended.then(() => true, () => false);
}

/** By itself, in time, and with a code that tells its supervisor. */
async function expectEnd({ ended }: Pick<ChaosAgent, "ended">): Promise<void> {
  const what = () => "the agent to end by itself";
  const { code, signal } = await withDeadline(ended, ENDED_MS_MAX, what);
  if (code === 0 || signal !== null) throw new Error(`The agent ended with ${code} (${signal})`);
}
