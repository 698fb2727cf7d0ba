// What a loss of power would leave, read from the system calls of the agent: the answer to a write
// leaves only after a sync of the log that began once the write stood in it. A kill cannot show
// this, since the system keeps what a killed process has written.

import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { programTest, requireProgram } from "../support/program.ts";
import { withFolder } from "../support/until.ts";
import { killAgent, objectOf, startChaosAgent } from "./agent_under_chaos.ts";
import { programOfRun } from "../support/agent_process.ts";

const JOBS = 60;
const CALLERS = 6;
/** Characters of a call's data that are traced: a page of the database. */
const DATA_CHARS = 4200;
const LOG_FILE = "/zonewright.db-wal>";

/** One system call that has come to its end, in the order of the ends. */
interface Call {
  readonly name: string;
  /** Descriptor with its file, and data. */
  readonly text: string;
  /** Line of the trace at which the call began, and at which it ended. */
  readonly began: number;
  readonly ended: number;
}

/** The calls of a trace made with `-f -y`; one of many threads may be interrupted by others. */
function readTrace(trace: string): Call[] {
  const unfinished = new Map<string, { name: string; text: string; began: number }>();
  const calls: Call[] = [];
  for (const [line, whole] of trace.split("\n").entries()) {
    const [, pid = "", words = ""] = /^(\d+)\s+(.*)$/.exec(whole) ?? [];
    const resumed = /^<\.\.\. (\w+) resumed>(.*)$/.exec(words);
    if (resumed !== null) {
      const begun = unfinished.get(pid);
      unfinished.delete(pid);
      if (begun !== undefined) calls.push({ ...begun, ended: line });
      continue;
    }
    const [, name, text = ""] = /^(\w+)\((.*)$/.exec(words) ?? [];
    if (name === undefined) continue;
    if (text.endsWith("<unfinished ...>")) unfinished.set(pid, { name, text, began: line });
    else calls.push({ name, text, began: line, ended: line });
  }
  return calls;
}

async function postJobs(stateDir: string, trace: string): Promise<string[]> {
  const agent = await startChaosAgent({
    program: programOfRun(),
    stateDir,
    around: [
      requireProgram("strace") ?? "strace",
      ...["-f", "-D", "-qq", "-y", "-o", trace, "-s", `${DATA_CHARS}`],
      ...["-e", "trace=pwrite64,fdatasync,fsync,write,writev,sendto,sendmsg"],
    ],
  });
  try {
    const workflow = objectOf(
      await agent.ask("POST", "/workflows", {
        name: "no-op",
        chain: [{ name: "nothing", body: "(job, cb) => cb()" }],
      }),
    ).uuid ?? null;
    const uuids: string[] = [];
    await Promise.all(Array.from({ length: CALLERS }, async () => {
      while (uuids.length < JOBS) {
        const { status, body } = await agent.ask("POST", "/jobs", { workflow });
        assertEquals(status, 201);
        uuids.push(String(objectOf({ status, body }).uuid));
      }
    }));
    return uuids;
  } finally {
    await killAgent(agent);
  }
}

programTest("strace", "no 201 leaves before its job is on the disk", async () => {
  await withFolder(async (folder) => {
    const trace = join(folder, "trace");
    const uuids = await postJobs(join(folder, "state"), trace);
    const calls = readTrace(await Deno.readTextFile(trace));
    const written = calls.filter(({ name, text }) =>
      name === "pwrite64" && text.includes(LOG_FILE)
    );
    const syncs = calls.filter(({ name, text }) =>
      name.endsWith("sync") && text.includes(LOG_FILE)
    );
    assert(syncs.length > 0, "the log was never synced");
    for (const uuid of uuids) {
      const answer = calls.find(({ name, text }) =>
        /^(write|writev|sendto|sendmsg)$/.test(name) && text.includes("HTTP/1.1 201") &&
        text.includes(uuid)
      );
      const inLog = written.find(({ text }) => text.includes(uuid));
      assert(answer !== undefined && inLog !== undefined, `job ${uuid} is not in the trace`);
      const sync = syncs.find(({ began, ended }) => began >= inLog.ended && ended <= answer.began);
      assert(sync !== undefined, `the answer for job ${uuid} left before it was synced`);
    }
  });
});
