// `zonewright demo`, which `make run` runs: a development agent in a folder of its own, on which a first
// machine is created while you watch, with a few more machines and jobs to look at. It touches nothing else
// on this machine, and leaves nothing behind.

import { join } from "@std/path";
import { closing } from "../runtime/waiting.ts";
import type { Config } from "../config/settings.ts";
import { loadConfig } from "../config/sources.ts";
import { AgentError } from "../domain/error.ts";
import { systemNow } from "../domain/instant.ts";
import type { JsonObject } from "../domain/json.ts";
import { selfCommand } from "../runtime/executable.ts";
import { openLog } from "../metrics/log.ts";
import { readObjects, textIn } from "./client/api_call.ts";
import { EXIT, type ExitCode, type Invocation, type Noun } from "./command/command.ts";
import { listenForStop } from "./serve.ts";
import { configSources } from "./config.ts";
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

/** `zonewright demo`. */
export const DEMO: Noun = {
  kind: "command",
  command: {
    summary: "try it: simulated host, first machine created while you watch",
    operands: "",
    operandsMin: 0,
    operandsMax: 0,
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
  return await closing({ [Symbol.dispose]: stop.close }, async () => {
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
        "\nMore machines, jobs and media to look at are made. This takes some seconds.\n",
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
  const { makeSamples } = await import("./demo_samples.ts");
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
failed and says what to do; another waits for somebody. Look around:
  curl ${url}/agent/v1/machines
  curl ${url}/jobs
  curl ${url}/v1/index.json
  curl ${url}/stats
${statusLine(url)}
${isTerminal ? "\nCtrl-C ends the agent and its machines.\n" : ""}`;
}
