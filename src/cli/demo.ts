// `zonewright demo`, which `make run` runs: a development agent in a folder of its own, on which a first
// machine is created while you watch, with a few more machines and jobs to look at. It touches nothing else
// on this machine, and leaves nothing behind.

import { join } from "@std/path";
import { whileOpen } from "../runtime/run.ts";
import type { Config } from "../config/settings.ts";
import { loadConfig } from "../config/sources.ts";
import { AgentError } from "../domain/error.ts";
import { systemNow } from "../domain/instant.ts";
import type { JsonObject } from "../domain/json.ts";
import { selfCommand } from "../runtime/executable.ts";
import { openLog } from "../metrics/log.ts";
import { readObject, readObjects, textIn } from "./client/answer.ts";
import { EXIT, type ExitCode, type Invocation, type Noun } from "./command/command.ts";
import { listenForStop } from "./serve.ts";
import { configSources } from "./config/settings.ts";
import { openInBrowser } from "./ui.ts";

/**
 * The machine of document 3, with addresses of the documentation network. Its `ip` differs from the one in
 * README.md, so that the machine of README.md can be created beside it.
 */
const MACHINE: JsonObject = {
  brand: "kvm",
  alias: "first-machine",
  vcpus: 1,
  autoboot: false,
  ram: 1024,
  resolvers: ["192.0.2.53"],
  disks: [{ boot: true, model: "virtio", size: 10_240 }],
  nics: [{
    nic_tag: "external",
    model: "virtio",
    ip: "192.0.2.11",
    netmask: "255.255.255.0",
    gateway: "192.0.2.1",
    primary: 1,
  }],
};
const MEDIUM = "zonewright-sample/latest?format=iso";

/** `zonewright demo`: starts an agent with a simulated host in a temporary folder, which Ctrl-C removes. */
export const DEMO: Noun = {
  kind: "command",
  command: {
    summary: "try it: simulated host, first machine created while you watch",
    examples: [["demo", "everything in a temporary folder, until Ctrl-C"]],
    flags: [
      {
        name: "listen",
        placeholder: "HOST:PORT",
        help: "loopback address [127.0.0.1:8780, or a free port when that is taken]",
      },
    ],
    shared: "help",
    run: demo,
  },
};

async function demo(call: Invocation): Promise<ExitCode> {
  const folder = await Deno.makeTempDir({ prefix: "zonewright-demo-" });
  let code: ExitCode;
  try {
    code = await demoIn(folder, call);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
  if (code === EXIT.ok) call.terminal.err("The agent and its machines have ended.\n");
  return code;
}

async function demoIn(folder: string, call: Invocation): Promise<ExitCode> {
  const { terminal } = call;
  const log = openLog({
    level: "error",
    format: "text",
    write: (line) => terminal.err(`${line}\n`),
    now: systemNow,
  });
  const stop = listenForStop(log);
  return await whileOpen({ [Symbol.dispose]: stop.close }, async () => {
    const { startAgent } = await import("../agent/agent.ts");
    const start = async (listen?: string) =>
      await startAgent(await configOf(call, join(folder, "state"), listen), { log });
    const agent = await start().catch((error: unknown) => {
      const taken = error instanceof AgentError && error.code === "conflict";
      if (!taken || call.args.has("listen")) throw error;
      return start("127.0.0.1:0");
    });
    try {
      const url = agent.urls[0] ?? "";
      terminal.err(`The agent answers at ${url}; its host is simulated.\n\n`);
      const code = await firstMachine(folder, url, call);
      if (code !== EXIT.ok) return code === EXIT.interrupted ? EXIT.interrupted : EXIT.failure;
      terminal.err(
        "\nCreating more machines, jobs and media to look at. This takes a few seconds.\n",
      );
      if (await madeSamples(url, stop.asked)) {
        terminal.err(tour(url, terminal.errIsTerminal));
        await openInBrowser(`${url}/ui`, terminal);
      }
      await stop.asked;
      return EXIT.ok;
    } finally {
      await agent.stop("the demonstration ends");
    }
  });
}

/** The settings of a development agent, whatever the environment says. */
async function configOf(call: Invocation, stateDir: string, listen?: string): Promise<Config> {
  const sources = configSources(call);
  const flags = {
    ...sources.flags,
    dev: true,
    "state-dir": stateDir,
    ...(listen === undefined ? {} : { listen }),
  };
  return await loadConfig({ ...sources, flags, env: {} });
}

async function firstMachine(folder: string, url: string, call: Invocation): Promise<number> {
  const { terminal } = call;
  const file = join(folder, "machine.json");
  await Deno.writeTextFile(file, JSON.stringify(MACHINE, null, 2));
  terminal.err("$ zonewright image sync --wait\n");
  const synced = await runSelf(["image", "sync", "--wait", "--url", url]);
  if (synced !== EXIT.ok) return synced;
  terminal.err(`\n$ zonewright machine create -f machine.json --artifact '${MEDIUM}' --follow\n`);
  const create = ["machine", "create", "-f", file, "--artifact", MEDIUM, "--follow"];
  const created = await runSelf([...create, "--url", url]);
  if (created !== EXIT.ok) return created;
  const [machine] = readObjects(await machinesOf(url), "the machines");
  const uuid = textIn(machine ?? {}, "uuid") ?? "";
  terminal.err(`\n$ zonewright machine vnc ${uuid} --password\n`);
  return await runSelf(["machine", "vnc", uuid, "--password", "--url", url]);
}

/** @returns whether they were created before the demo was stopped */
async function madeSamples(url: string, asked: Promise<string>): Promise<boolean> {
  const stopping = new AbortController();
  void asked.then(() => stopping.abort());
  await makeSamples(url, stopping.signal).catch((error: unknown) => {
    if (!stopping.signal.aborted) throw error;
  });
  return !stopping.signal.aborted;
}

async function machinesOf(url: string): Promise<unknown> {
  return await (await fetch(`${url}/agent/v1/machines`)).json();
}

/** Runs a command of this program as the operator would, on the same terminal. */
async function runSelf(args: readonly string[]): Promise<number> {
  const self = selfCommand();
  const child = new Deno.Command(self.program, {
    args: [...self.args, ...args],
    stdin: "null",
    stdout: "inherit",
    stderr: "inherit",
  });
  return (await child.spawn().status).code;
}

/** From source, there is no `zonewright` command before it is built. */
function statusLine(url: string): string {
  return selfCommand().compiled
    ? `  zonewright status --url ${url}`
    : `  make build && dist/zonewright status --url ${url}`;
}

/** What to look at next. */
function tour(url: string, isTerminal: boolean): string {
  return `
The web console shows all of it, with the screens of the machines: ${url}/ui
Any VNC client can open the first machine's, with the address and the password above. One job has
failed and says what to do; another waits for an operator. Look around:
  curl ${url}/agent/v1/machines
  curl ${url}/jobs
  curl ${url}/v1/index.json
  curl ${url}/stats
${statusLine(url)}
${isTerminal ? "\nCtrl-C ends the agent and its machines.\n" : ""}`;
}

/** A machine of the demo, with an address of the documentation network. */
function machine(alias: string, brand: "kvm" | "bhyve", ip: string, sizes: JsonObject): JsonObject {
  const { ram, vcpus, size } = sizes;
  return {
    brand,
    alias,
    vcpus: vcpus ?? 1,
    autoboot: false,
    ram: ram ?? null,
    resolvers: ["192.0.2.53"],
    disks: [{ boot: true, model: "virtio", size: size ?? null }],
    nics: [{
      nic_tag: "external",
      model: "virtio",
      ip,
      netmask: "255.255.255.0",
      gateway: "192.0.2.1",
      primary: 1,
    }],
  };
}

const DATABASE = machine("database", "kvm", "192.0.2.21", { ram: 4096, vcpus: 2, size: 40_960 });
const WEB = machine("web-1", "bhyve", "192.0.2.22", { ram: 2048, vcpus: 2, size: 20_480 });
const ARTIFACT: JsonObject = { distro: "zonewright-sample", release: "latest", format: "iso" };
const UPLOADED = "zonewright-sample.iso";
/** Seconds for a machine of the demo to start, or for a job to end. */
const SETTLED_SECONDS = 60;

/** Fails while the machine runs; once it is stopped, a retry from `resize` succeeds. */
const RESIZE: JsonObject = {
  name: "resize-memory",
  chain: [{
    name: "look",
    body: `async function look(job, cb) {
  const machine = await vmadm.get(job.params.uuid);
  if (!machine) return cb('There is no machine ' + job.params.uuid);
  log.info('found', { alias: machine.alias, state: machine.state, ram: machine.ram });
  cb(null, { alias: machine.alias, ram: machine.ram });
}`,
  }, {
    name: "resize",
    retry: 1,
    body: `async function resize(job, cb) {
  const { uuid, ram } = job.params;
  const { alias, state } = await vmadm.get(uuid);
  if (state !== 'stopped') {
    return cb(alias + ' is ' + state + ': stop it on its page, then retry this job from here');
  }
  await vmadm.update(uuid, { ram });
  cb(null, { ram });
}`,
  }, {
    name: "boot",
    body: `async (job, cb) => {
  await vmadm.boot(job.params.uuid, {});
  cb(null, 'booted');
}`,
  }],
};
/** A workflow whose task waits until somebody resumes it. */
const MAINTENANCE: JsonObject = {
  name: "announce-maintenance",
  chain: [{
    name: "prepare",
    body: `async (job, cb) => {
  const machines = await vmadm.list();
  log.info('machines of this host', { count: machines.length });
  cb(null, machines.map(({ alias }) => alias));
}`,
  }, {
    name: "approval",
    body: `function approval(job, cb) {
  log.info('waiting for approval', { by: job.params.approver });
  cb('wait');
}`,
  }, {
    name: "announce",
    body: "(job, cb) => { log.info('announced', { window: job.params.window }); cb(); }",
  }],
};
const INVENTORY: JsonObject = {
  name: "inventory",
  chain: [{
    name: "count",
    body: `async (job, cb) => {
  const states = {};
  for (const { state } of await vmadm.list()) states[state] = (states[state] || 0) + 1;
  cb(null, states);
}`,
  }],
};

/** An agent, and the signal that ends requests to it. */
interface Asked {
  readonly url: string;
  readonly signal: AbortSignal;
}

/**
 * Makes what the demo shows besides the first machine: a few more machines, jobs of every kind and
 * a library, by requests that any caller can send. One job has failed, and its error says what to
 * do; one waits to be resumed. Resolves once the machines run and each job has ended, failed or
 * waits, as intended.
 * @param url of the agent
 * @throws {AgentError} `internal` with what the agent refused
 */
export async function makeSamples(url: string, signal: AbortSignal): Promise<void> {
  const agent: Asked = { url, signal };
  const media = { artifact: ARTIFACT };
  const made = await Promise.all(
    [DATABASE, WEB].map((one) => post(agent, "/agent/v1/machines", { machine: one, media })),
  );
  await upload(agent);
  await Promise.all(made.map((one) => settled(agent, textIn(one, "job_uuid"))));
  const uuid = textIn(made[0] ?? {}, "uuid") ?? "";
  const jobs = [
    await job(agent, INVENTORY, { target: "/inventory" }),
    await job(agent, RESIZE, { target: `/machines/${uuid}`, uuid, ram: 8192 }),
    await job(agent, MAINTENANCE, {
      target: "/maintenance",
      approver: "operations",
      window: "Sunday 02:00",
    }),
  ];
  await Promise.all(jobs.map((one) => settled(agent, one)));
}

async function job(agent: Asked, workflow: JsonObject, params: JsonObject): Promise<string> {
  const { uuid } = await post(agent, "/workflows", workflow);
  return textIn(await post(agent, "/jobs", { workflow: uuid ?? null, ...params }), "uuid") ?? "";
}

/** Waits until a job has ended or is waiting to be resumed. */
async function settled(agent: Asked, uuid: string | undefined): Promise<void> {
  await answered(agent, `/jobs/${uuid}/wait?timeout=${SETTLED_SECONDS}`, {});
}

/** Uploads the installer from the sample index, as an operator would upload one of their own. */
async function upload(agent: Asked): Promise<void> {
  const query = "distro=zonewright-sample&release=latest&format=iso&limit=1";
  const page = readObject(await answered(agent, `/agent/v1/images?${query}`, {}), "the images");
  const [image] = readObjects(page.images, "the images");
  const file = await fetch(textIn(image ?? {}, "url") ?? "", { signal: agent.signal });
  await answered(agent, `/agent/v1/media/library/${UPLOADED}`, {
    method: "PUT",
    headers: { "content-type": "application/octet-stream" },
    body: await file.arrayBuffer(),
  });
}

async function post(agent: Asked, path: string, body: JsonObject): Promise<JsonObject> {
  const answer = await answered(agent, path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return readObject(answer, path);
}

async function answered(
  { url, signal }: Asked,
  path: string,
  request: RequestInit,
): Promise<unknown> {
  const response = await fetch(url + path, { ...request, signal });
  const text = await response.text();
  if (response.ok) return JSON.parse(text);
  throw new AgentError("internal", `Cannot make the samples: ${path} answered ${text}`);
}
