// An agent that makes machines, and what became of the time of each step.

import { join } from "@std/path";
import { BINARY } from "./agent_under_test.ts";
import type { Call, MachineHost } from "./machine_host.ts";

const START_MS_MAX = 30_000;
const JOB_MS_MAX = 120_000;
/** As long as one request may wait for the end of a job. */
const WAIT_SECONDS = 60;

/** An agent with one medium. */
export interface MachineAgent {
  readonly url: string;
  readonly pid: number;
  readonly folder: string;
  readonly host: MachineHost;
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

/** Starts an agent that takes this host for a real one. */
export async function startMachineAgent(
  folder: string,
  { host, medium, slots }: { host: MachineHost; medium: string; slots: number },
): Promise<MachineAgent> {
  const child = new Deno.Command(BINARY, {
    args: [
      ...["serve", "--listen", "127.0.0.1:0", "--state-dir", join(folder, "state")],
      ...["--host", "local", "--vmadm", host.vmadm, "--zones", host.zones],
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
    host,
    medium,
    async stop() {
      child.kill("SIGTERM");
      await child.status;
      await reading;
    },
  };
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
  const calls = await agent.host.calls(uuid);
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

/** Waits inside a request, so that asking costs the agent nothing while it works. */
async function jobEnd(agent: MachineAgent, uuid: string): Promise<Ended> {
  for (const deadline = performance.now() + JOB_MS_MAX; performance.now() < deadline;) {
    const response = await fetch(`${agent.url}/jobs/${uuid}/wait?timeout=${WAIT_SECONDS}`);
    const job = await response.json();
    if (job.execution === "success") return job;
    if (job.execution === "failure") throw new Error(JSON.stringify(job.chain_results));
  }
  throw new Error(`Job ${uuid} does not end`);
}

/** Milliseconds of a step in which a call about its machine was under way. */
function msWithin(calls: readonly Call[], from: number, to: number): number {
  return calls.reduce(
    (sum, { begin, end }) => sum + Math.max(0, Math.min(end, to) - Math.max(begin, from)),
    0,
  );
}
