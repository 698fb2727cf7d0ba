// An agent that makes machines on a simulated host, and a vmadm in front of that host which notes when
// each call began and ended: what is left of a step is the agent's own time.

import { join } from "@std/path";
import { BINARY } from "./agent_under_test.ts";

const START_MS_MAX = 30_000;
const JOB_MS_MAX = 120_000;
const POLL_MS = 20;

/** An agent with one medium. */
export interface MachineAgent {
  readonly url: string;
  readonly pid: number;
  readonly folder: string;
  readonly medium: string;
  stop(): Promise<void>;
}

/** One task of a job that made a machine. */
export interface Step {
  readonly task: string;
  /** From the start of the task to the record of its end. */
  readonly ms: number;
  /** What of that somebody spent inside vmadm. */
  readonly vmadmMs: number;
}

export interface MadeMachine {
  readonly uuid: string;
  readonly steps: readonly Step[];
}

/** One call of vmadm; milliseconds since 1970. */
interface Call {
  readonly begin: number;
  readonly end: number;
  readonly uuid: string;
}

/**
 * The program that stands for vmadm. What starting this shell takes, some two milliseconds, counts as
 * the agent's. Payloads are read first, since only they name the machine of a create.
 */
function vmadmScript(state: string, log: string): string {
  return `#!/bin/bash
begin=$EPOCHREALTIME
words="$*"
if [[ $1 == create || $1 == validate || $1 == update ]]; then
  IFS= read -r -d '' payload
  words="$words $payload"
  ${BINARY} simulate --state ${state} vmadm "$@" <<< "$payload"
else
  ${BINARY} simulate --state ${state} vmadm "$@" < /dev/null
fi
code=$?
named='"uuid":"([0-9a-f-]{36})"'
given='([0-9a-f]{8}-[0-9a-f-]{27})'
[[ $words =~ $named || $words =~ $given ]]
echo "$begin $EPOCHREALTIME \${BASH_REMATCH[1]}" >> ${log}
exit $code
`;
}

/** Starts an agent that takes the simulated host for a real one. */
export async function startMachineAgent(
  folder: string,
  medium: string,
  slots: number,
): Promise<MachineAgent> {
  const host = join(folder, "host");
  const vmadm = join(folder, "vmadm");
  await Deno.writeTextFile(vmadm, vmadmScript(host, join(folder, "calls")), { mode: 0o755 });
  await Deno.writeTextFile(join(folder, "calls"), "");
  await run(BINARY, ["simulate", "--state", host, "engine"]);
  const child = new Deno.Command(BINARY, {
    args: [
      ...["serve", "--listen", "127.0.0.1:0", "--state-dir", join(folder, "state")],
      ...["--host", "local", "--vmadm", vmadm, "--zones", join(host, "zones")],
      ...["--media-dir", join(folder, "media"), "--slots", String(slots)],
      ...["--log-format", "json"],
    ],
    clearEnv: true,
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  let text = "";
  const listening = Promise.withResolvers<string>();
  const reading = child.stderr.pipeThrough(new TextDecoderStream()).pipeTo(
    new WritableStream({
      write: (part) => {
        if (text.length > 100_000) return;
        text += part;
        const url = /"agent started".*"urls":"(http:[^" ]+)/.exec(text)?.[1];
        if (url !== undefined) listening.resolve(url);
      },
    }),
  );
  const timer = setTimeout(() => listening.reject(new Error(`No agent:\n${text}`)), START_MS_MAX);
  const url = await listening.promise.finally(() => clearTimeout(timer));
  return {
    url,
    pid: child.pid,
    folder,
    medium,
    async stop() {
      child.kill("SIGTERM");
      await child.status;
      await reading;
      await run(BINARY, ["simulate", "--state", host, "stop-all"]);
    },
  };
}

async function run(program: string, args: readonly string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(program, { args: [...args] }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}

/** Makes a machine and tells what became of the time. */
export async function makeMachine(agent: MachineAgent): Promise<MadeMachine> {
  const response = await fetch(`${agent.url}/agent/v1/machines`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      machine: {
        brand: "kvm",
        ram: 512,
        disks: [{ boot: true, model: "virtio", size: 1024 }],
        nics: [{ nic_tag: "admin", model: "virtio", ip: "dhcp", primary: true }],
      },
      media: { path: "install.iso" },
    }),
  });
  const { uuid, job_uuid, message } = await response.json();
  if (response.status !== 202) throw new Error(`No machine is made: ${message}`);
  const job = await jobEnd(agent, job_uuid);
  const calls = await callsOf(agent, uuid);
  const steps = job.chain_results.map((entry): Step => {
    const [from, to] = [Date.parse(entry.started_at), Date.parse(entry.finished_at)];
    return { task: entry.name, ms: to - from, vmadmMs: msWithin(calls, from, to) };
  });
  return { uuid, steps };
}

interface Ended {
  readonly execution: string;
  readonly chain_results: readonly {
    readonly name: string;
    readonly started_at: string;
    readonly finished_at: string;
    readonly error: unknown;
  }[];
}

async function jobEnd(agent: MachineAgent, uuid: string): Promise<Ended> {
  for (const deadline = performance.now() + JOB_MS_MAX; performance.now() < deadline;) {
    const job = await (await fetch(`${agent.url}/jobs/${uuid}`)).json();
    if (job.execution === "success") return job;
    if (job.execution === "failure") throw new Error(JSON.stringify(job.chain_results));
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  throw new Error(`Job ${uuid} does not end`);
}

async function callsOf({ folder }: MachineAgent, uuid: string): Promise<Call[]> {
  const lines = (await Deno.readTextFile(join(folder, "calls"))).split("\n");
  return lines.map((line) => line.split(" ")).flatMap(([begin, end, whose]) =>
    whose === uuid ? [{ begin: Number(begin) * 1000, end: Number(end) * 1000, uuid }] : []
  );
}

/** Milliseconds of a step in which a call about its machine was under way. */
function msWithin(calls: readonly Call[], from: number, to: number): number {
  return calls.reduce(
    (sum, { begin, end }) => sum + Math.max(0, Math.min(end, to) - Math.max(begin, from)),
    0,
  );
}

/** Removes a machine, by the host's own call. */
export async function removeMachine({ folder }: MachineAgent, uuid: string): Promise<void> {
  const host = join(folder, "host");
  await run(BINARY, ["simulate", "--state", host, "vmadm", "delete", uuid]);
}
