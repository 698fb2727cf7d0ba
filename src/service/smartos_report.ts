// `zonewright doctor --smartos-trial FILE`: ten commands for somebody with a SmartOS host. They look at the host,
// check the walls, run a job on a simulated host, and create and remove one machine without an operating system
// through `--host local`. All of them run even if one fails; everything goes into one report.

import { join } from "@std/path";
import { messageOf } from "../domain/error.ts";
import { runCommand } from "../host/program.ts";
import { NICTAGADM, ZFS } from "../host/transport.ts";
import { installableSelf, selfCommand, VERSION } from "../runtime/executable.ts";
import { pause } from "../runtime/wait.ts";
import { SERVICE_PATHS, SVCCFG } from "./manager.ts";

/** Milliseconds for one command: vmadm may take long to create a machine. */
const COMMAND_MS = 300_000;
/** Milliseconds until the agent must listen. */
const START_MS = 60_000;
const AGENT_LOOK_MS = 100;
/** Characters of one command's output, and of the agent's log, that the report keeps. */
const OUTPUT_CHARS_MAX = 60_000;
/** Guests and decoders run as another user and must enter the folder, to run what is installed in it. */
const FOLDER_MODE = 0o711;
const UNAME = "/usr/bin/uname";
const PPRIV = "/usr/bin/ppriv";

interface ReportPlace {
  readonly vmadm: string;
  /** Prints what is being done. */
  readonly progress: (line: string) => void;
}

interface ReportStep {
  readonly title: string;
  readonly program: string;
  readonly args: readonly string[];
  /** What its output must be, where its exit code is not enough. */
  readonly expected?: RegExp;
}

/** The text of the report, and the number of commands that failed. */
interface SmartosReport {
  readonly text: string;
  readonly failed: number;
}

/**
 * A workflow that creates a machine with a disk of 1 GiB and no network, looks at it and deletes it; it is never
 * started.
 */
const WORKFLOW = {
  name: "smartos-trial",
  timeout: COMMAND_MS / 1000,
  chain: [
    {
      name: "create",
      body: `async (job, cb) => {
        const disks = [{ boot: true, model: "virtio", size: 1024 }];
        const { uuid } = job.params;
        await vmadm.create({ uuid, brand: "kvm", alias: "zonewright-trial", ram: 256, disks, nics: [] });
        const { brand, state, zonepath } = await vmadm.get(uuid);
        cb(null, { brand, state, zonepath });
      }`,
    },
    {
      name: "delete",
      body: `async (job, cb) => {
        await vmadm.delete(job.params.uuid);
        cb(null, { left: await vmadm.get(job.params.uuid) });
      }`,
    },
  ],
  onerror: [{
    name: "remove",
    body: `async (job, cb) => {
      await vmadm.delete(job.params.uuid);
      cb();
    }`,
  }],
};

/** Runs the ten commands in a temporary folder, and removes what they created. */
export async function reportOnSmartos({ vmadm, progress }: ReportPlace): Promise<SmartosReport> {
  const folder = await Deno.makeTempDir({ prefix: "zonewright-trial-" });
  const parts = [`zonewright ${VERSION}: trial on a SmartOS host\n`];
  let failed = 0;
  const run = async (step: ReportStep) => {
    const { title, line, text, ok } = await runStep(step);
    progress(`${ok ? "ok  " : "FAIL"} ${title}`);
    parts.push(`## ${parts.length}. ${title}\n\n$ ${line}\n${text}\n`);
    if (!ok) failed += 1;
  };
  try {
    const uuid = crypto.randomUUID();
    const workflow = join(folder, "workflow.json");
    await Deno.writeTextFile(workflow, JSON.stringify(WORKFLOW));
    const root = join(folder, "root");
    await Deno.chmod(folder, FOLDER_MODE);
    const installed = await runStep(
      ofProgram(commandOf(), "install", ["install", "smf", "--root", root]),
    );
    const self = installed.ok ? installedBelow(root) : commandOf();
    for (const step of stepsBefore(self, { folder, root, workflow, uuid })) await run(step);
    const agent = await startLocalAgent(self, folder, vmadm);
    try {
      await runStep(
        ofProgram(self, "workflow", ["workflow", "apply", "-f", workflow, ...agent.at]),
      );
      const job = ["job", "run", WORKFLOW.name, "-p", `uuid=${uuid}`, "--wait", ...agent.at];
      await run(ofProgram(self, "a machine without a system, by --host local", job));
    } finally {
      await agent.stop();
    }
    const lookup = ["lookup", "-j", `uuid=${uuid}`];
    const left = await runStep({ title: "left", program: vmadm, args: lookup, expected: EMPTY });
    if (!left.ok) await runStep({ title: "delete", program: vmadm, args: ["delete", uuid] });
    await run({ title: "nothing is left of it", program: vmadm, args: lookup, expected: EMPTY });
    parts.push(`## The manifest\n\n$ ${installed.line}\n${installed.text}\n`);
    parts.push(`## The agent's log\n\n${agent.log()}\n`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
  parts.push(failed === 0 ? "All ten did what they should.\n" : `${failed} of ten failed.\n`);
  return { text: parts.join("\n"), failed };
}

const EMPTY = /^\s*\[\s*\]\s*$/;

/** Those before the agent starts. */
function stepsBefore(
  self: readonly string[],
  { folder, root, workflow, uuid }: Readonly<
    Record<"folder" | "root" | "workflow" | "uuid", string>
  >,
): ReportStep[] {
  const manifest = join(root, "opt/custom/smf/zonewright.xml");
  const state = ["--state-dir", join(folder, "examined")];
  return [
    { title: "the system", program: UNAME, args: ["-a"] },
    { title: "the basic privileges", program: PPRIV, args: ["-l", "basic"] },
    {
      title: "the pool",
      program: ZFS,
      args: ["list", "-Hp", "-o", "used,available", "zones"],
    },
    { title: "the networks", program: NICTAGADM, args: ["list", "-p"] },
    ofProgram(self, "the versions", ["version"]),
    ofProgram(self, "the walls of guests and decoders", [
      ...["doctor", "--run", "guests", "--run", "decoders", ...state],
    ]),
    ofProgram(self, "a job on a simulated host", [
      ...["workflow", "try", "-f", workflow, "-p", `uuid=${uuid}`],
    ]),
    { title: "the manifest for SMF", program: SVCCFG, args: ["validate", manifest] },
  ];
}

/** This program as a command line. */
function commandOf(): readonly string[] {
  const { program, args } = selfCommand();
  return [program, ...args];
}

/** The program installed below a folder, where the user of guests can reach it. */
function installedBelow(root: string): readonly string[] {
  return [...installableSelf().runtime, join(root, SERVICE_PATHS.smf.binary)];
}

function ofProgram(
  [program = "", ...self]: readonly string[],
  title: string,
  args: readonly string[],
): ReportStep {
  return { title, program, args: [...self, ...args] };
}

async function runStep({ title, program, args, expected }: ReportStep) {
  const line = [program, ...args].join(" ");
  try {
    const { code, signal, stdout, stderr, durationMs } = await runCommand(program, args, {
      deadlineMs: COMMAND_MS,
      env: { ...selfCommand().env },
    });
    const how = signal === null ? `exit code ${code}` : `ended by ${signal}`;
    const ok = code === 0 && (expected?.test(stdout) ?? true);
    const output = `${stdout}${stderr}`.slice(0, OUTPUT_CHARS_MAX);
    return { title, line, ok, text: `${output}(${how}, ${Math.round(durationMs)} ms)\n` };
  } catch (error) {
    return { title, line, ok: false, text: `(${messageOf(error)})\n` };
  }
}

/** An agent of this host that answers on a socket in the folder. */
async function startLocalAgent(
  [program = "", ...self]: readonly string[],
  folder: string,
  vmadm: string,
) {
  const socket = join(folder, "agent.sock");
  const flags = ["--host", "local", "--vmadm", vmadm, "--listen", "off", "--socket", socket];
  const state = ["--state-dir", join(folder, "state"), "--log-format", "json"];
  const child = new Deno.Command(program, {
    args: [...self, "serve", ...flags, ...state],
    env: { ...selfCommand().env },
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  let log = "";
  const reading = (async () => {
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) {
      log = (log + text).slice(-OUTPUT_CHARS_MAX);
    }
  })();
  let ended = false;
  const status = child.status.then(() => void (ended = true));
  for (
    let waited = 0;
    !ended && waited < START_MS && !await answers(socket);
    waited += AGENT_LOOK_MS
  ) {
    await pause(AGENT_LOOK_MS, new AbortController().signal);
  }
  return {
    at: ["--socket", socket],
    log: () => log,
    async stop() {
      if (!ended) child.kill("SIGTERM");
      await Promise.all([status, reading]);
    },
  };
}

async function answers(path: string): Promise<boolean> {
  try {
    (await Deno.connect({ transport: "unix", path })).close();
    return true;
  } catch {
    return false; // Not yet.
  }
}
