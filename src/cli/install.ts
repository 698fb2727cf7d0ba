// `zonewright install`, `upgrade` and `uninstall`: the agent as a service of systemd or SMF. They work on
// this machine, not through an agent.

import { resolve } from "@std/path";
import { AgentError, invalidArgument, messageOf, systemReason } from "../domain/error.ts";
import { nearest } from "../domain/near_word.ts";
import { installableSelf, selfCommand } from "../runtime/executable.ts";
import { runCommand } from "../host/program.ts";
import { definitionText, installService, uninstallService } from "../service/installation.ts";
import {
  type Run,
  SERVICE_MANAGERS,
  SERVICE_NAME,
  SERVICE_PATHS,
  type ServiceManager,
} from "../service/manager.ts";
import { cannot, type Flag, usageError } from "./command/arguments.ts";
import type { Invocation, Noun } from "./command/command.ts";
import type { Config } from "../config/settings.ts";
import { loadConfig } from "../config/sources.ts";
import { isDigestValue } from "../domain/digest.ts";
import { systemNow } from "../domain/instant.ts";
import { pause } from "../runtime/wait.ts";
import { installedManager, upgradeService } from "../service/upgrade.ts";
import { type AgentAddress, shellQuoted } from "./client/api_call.ts";
import { type Client, openClient } from "./client/client.ts";

const USER = /^[a-z_][a-z0-9_-]{0,31}$/;

const ROOT_FLAG: Flag = {
  name: "root",
  placeholder: "DIR",
  help: "install below this folder and start nothing: for images and packages",
};

function managerOf({ args }: Invocation): ServiceManager {
  const [word = ""] = args.operands;
  const found = SERVICE_MANAGERS.find((manager) => manager === word);
  if (found !== undefined) return found;
  throw cannot(
    `install for ${JSON.stringify(word)}, expected ${SERVICE_MANAGERS.join(" or ")}` +
      nearest(word, SERVICE_MANAGERS),
  );
}

function rootOf({ args, terminal }: Invocation): { readonly root?: string } {
  const root = args.text("root");
  return root === undefined ? {} : { root: resolve(terminal.cwd, root) };
}

/** Nothing is run for another root: its service manager is not that of this machine. */
function runnerFor({ root }: { readonly root?: string }): { readonly run?: Run } {
  return root === undefined ? { run: runCommand } : {};
}

function userOf({ args }: Invocation, manager: ServiceManager): { readonly user?: string } {
  const user = args.text("user");
  if (user === undefined) return {};
  if (manager === "smf") {
    throw cannot("use --user with smf: in a global zone vmadm needs root, expected systemd");
  }
  if (!USER.test(user)) {
    throw cannot(`use --user ${JSON.stringify(user)}, expected the name of a user`);
  }
  return { user };
}

/**
 * `zonewright install`: writes the service, a configuration and the binary, and starts the agent.
 */
export const INSTALL: Noun = {
  kind: "command",
  command: {
    summary: "install this binary as a systemd or SMF service and start it",
    operands: "systemd|smf",
    examples: [
      [
        "install smf",
        "in a global zone: below /opt/custom, survives reboots; needs a build for illumos, or Node",
      ],
      ["install systemd --print", "prints the unit and changes nothing"],
    ],
    flags: [
      { name: "print", help: "print the unit or manifest and change nothing" },
      { name: "user", placeholder: "NAME", help: "systemd: run as this user, not as root" },
      { name: "no-start", help: "install without starting; SMF: not at boot either" },
      ROOT_FLAG,
    ],
    notes: [
      "zonewright upgrade replaces the binary later. An existing configuration is kept, and a unit or manifest\n" +
      "that install did not write is never replaced. Run as root.",
    ],
    shared: "output",
    run: install,
  },
};

async function install(call: Invocation): Promise<void> {
  const { args, printer, terminal } = call;
  const manager = managerOf(call);
  const user = userOf(call, manager);
  const start = !args.has("no-start");
  const { file, runtime } = installableSelf();
  if (manager === "systemd" && runtime.length > 0) {
    const message = "Cannot install for systemd what runs on Node, expected the binary, make build";
    throw new AgentError("conflict", message);
  }
  const definition = { manager, ...user, start, runtime };
  if (args.has("print")) {
    terminal.out(definitionText(definition));
    return;
  }
  if (!selfCommand().compiled) {
    throw new AgentError("conflict", "Cannot install from source, expected the binary, make build");
  }
  const root = rootOf(call);
  const tools = { program: file, ...runnerFor(root), note: printer.note };
  const report = await installService({ ...definition, ...root }, tools);
  if (printer.json) return printer.document(report);
  for (const path of report.written) printer.data(`wrote  ${path}`);
  for (const path of report.kept) printer.data(`kept   ${path}`);
  for (const line of report.ran) printer.data(`ran    ${line}`);
  printer.next("doctor", "check that everything it needs is there");
}

/** `zonewright uninstall`: removes only files that `install` wrote. */
export const UNINSTALL: Noun = {
  kind: "command",
  command: {
    summary: "stop and remove the service; configuration and state stay",
    operands: "systemd|smf",
    examples: [["uninstall systemd", "lists what holds data and stays"]],
    flags: [{ ...ROOT_FLAG, help: "remove what install wrote below this folder; stops nothing" }],
    shared: "output",
    async run(call) {
      const { printer } = call;
      const manager = managerOf(call);
      const root = rootOf(call);
      const report = await uninstallService({ manager, ...root }, {
        ...runnerFor(root),
        note: printer.note,
      });
      if (printer.json) return printer.document(report);
      for (const line of report.ran) printer.data(`ran      ${line}`);
      for (const path of report.removed) printer.data(`removed  ${path}`);
      for (const path of report.kept) printer.data(`kept     ${path}`);
      if (report.known === false) {
        printer.note(
          `${SERVICE_NAME[manager]} was not known to ${manager}; there was nothing to stop`,
        );
      }
      if (report.removed.length === 0) printer.note(`${SERVICE_NAME[manager]} is not installed`);
    },
  },
};

const READY_MS_MAX = 60_000;
const POLL_MS = 500;
const READY_STATUS = 200;

/**
 * `zonewright upgrade FILE`: verifies the digest of the file, installs it, and installs the old
 * binary again if the new agent does not become ready.
 * @see docs/operations.md
 */
export const UPGRADE: Noun = {
  kind: "command",
  command: {
    summary: "install a newer binary; rolls back if it does not become ready",
    operands: "FILE",
    examples: [
      ["upgrade ./zonewright-1.1.0", "verified by ./zonewright-1.1.0.sha256"],
      ['upgrade ./zonewright --sha256 "$DIGEST"', "with the digest that its publisher names"],
    ],
    flags: [
      { name: "sha256", placeholder: "HEX", help: "the digest of the file [that in FILE.sha256]" },
      { name: "unverified", help: "accept a file without a digest" },
    ],
    notes: [
      "The old binary is kept as zonewright.previous beside the new one, and a copy of the database in the\n" +
      "state folder. The service is stopped for a moment; running tasks get their ten seconds and run\n" +
      "again. If the new agent is not ready within a minute, binary and database are rolled back and the\n" +
      "command exits 1. Run as root.",
    ],
    shared: "output",
    run: upgrade,
    hint(error, { operands: [file = "FILE"] }) {
      switch (error.code) {
        case "digest_mismatch":
          return "download the file again, or see zonewright upgrade --help";
        case "conflict":
          return "zonewright install --help";
        case "host":
          return "zonewright doctor  examines what the agent needs";
        default:
          return error.errors.some(({ field }) => field === "sha256")
            ? `zonewright upgrade ${
              shellQuoted(file)
            } --sha256 HEX, with the digest of its publisher`
            : undefined;
      }
    },
  },
};

async function upgrade(call: Invocation): Promise<void> {
  const { args, printer, terminal } = call;
  const file = resolve(terminal.cwd, args.operand);
  const sha256 = await digestOf(call, file);
  const manager = await installedManager();
  const { config: path } = SERVICE_PATHS[manager];
  const config = await loadConfig({
    flags: { config: path },
    env: {},
    cwd: "/",
    os: Deno.build.os,
  });
  const client = openClient({ address: addressOf(config) });
  try {
    const wasReady = await isReady(client);
    const tools = {
      run: runCommand,
      runtime: installableSelf().runtime,
      now: systemNow,
      wasReady,
      ready: () => waitUntilReady(client, wasReady),
      note: printer.note,
    };
    const request = { file, sha256, manager, stateDir: config.state_dir.value };
    const report = await toItsEnd(printer.note, () => upgradeService(request, tools));
    if (printer.json) return printer.document(report);
    for (const line of report.ran) printer.data(`ran    ${line}`);
    printer.data(`kept   ${report.previous}`);
    if (report.database !== null) printer.data(`kept   ${report.database}`);
    printer.data(`ready  zonewright ${report.version}, sha256 ${report.sha256}`);
  } finally {
    client.close();
  }
}

/** Signals that would leave the service stopped; the loss of a terminal is one. */
const HELD_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Runs a function that no signal but SIGKILL interrupts. @param note takes a line at the first */
async function toItsEnd<T>(note: (line: string) => void, run: () => Promise<T>): Promise<T> {
  let noted = false;
  const hold = () => {
    if (!noted) {
      note("the upgrade is not interrupted, or the service would stay stopped: wait for its end");
    }
    noted = true;
  };
  for (const signal of HELD_SIGNALS) Deno.addSignalListener(signal, hold);
  try {
    return await run();
  } finally {
    for (const signal of HELD_SIGNALS) Deno.removeSignalListener(signal, hold);
  }
}

/** @throws {AgentError} `invalid_argument` for a missing file, and for one without a digest */
async function digestOf({ args }: Invocation, file: string): Promise<string | null> {
  const { isFile } = await Deno.stat(file).catch((error) => {
    throw cannot(`upgrade to ${file}: ${systemReason(error)}, expected a binary of zonewright`);
  });
  if (!isFile) {
    throw cannot(`upgrade to ${file}: it is not a file, expected a binary of zonewright`);
  }
  const typed = args.text("sha256");
  if (args.has("unverified")) {
    if (typed === undefined) return null;
    throw usageError("--sha256 and --unverified are both given, expected one of them");
  }
  const found = typed ?? await sumBeside(file);
  const [hex = ""] = found.trim().toLowerCase().split(/\s/, 1);
  if (isDigestValue("sha256", hex)) return hex;
  const where = typed === undefined ? `${file}.sha256` : "--sha256";
  const why = `${where} has no digest, expected 64 hexadecimal digits`;
  throw invalidArgument("sha256", `Cannot upgrade to ${file}: ${why}`);
}

async function sumBeside(file: string): Promise<string> {
  try {
    return await Deno.readTextFile(`${file}.sha256`);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) {
      throw cannot(`read ${file}.sha256: ${systemReason(error)}`);
    }
    const message = `Cannot upgrade to ${file}: it has no digest, expected ${file}.sha256, ` +
      "--sha256 or --unverified";
    throw invalidArgument("sha256", message);
  }
}

/** The socket if there is one: a certificate is for the names that callers use, not for this host. */
function addressOf({ socket, listen, tls_cert }: Config): AgentAddress {
  if (socket.value !== null) return { kind: "socket", path: socket.value };
  if (listen.value === null || tls_cert.value !== null) {
    const message =
      "Cannot upgrade: this host cannot ask the agent whether it is ready, expected " +
      "the setting socket";
    throw new AgentError("conflict", message);
  }
  const { hostname, port } = listen.value;
  const host = hostname.includes(":") ? `[${hostname}]` : hostname;
  return { kind: "url", base: `http://${host}:${port}` };
}

/** Whether an agent answers that it is ready; false as well when none answers. */
async function isReady(client: Client): Promise<boolean> {
  try {
    return (await client.exchange({ method: "GET", path: "/readyz" })).status === READY_STATUS;
  } catch (error) {
    if (error instanceof AgentError && error.code === "unreachable") return false;
    throw error;
  }
}

/**
 * Waits until the agent is ready. One that was not ready before, because of its host or its upstream, only
 * has to answer.
 * @throws {AgentError} `timeout`
 */
async function waitUntilReady(client: Client, wasReady: boolean): Promise<void> {
  const deadline = AbortSignal.timeout(READY_MS_MAX);
  const path = wasReady ? "/readyz" : "/healthz";
  let last = "it does not answer";
  while (!deadline.aborted) {
    try {
      const { status, text } = await client.exchange({ method: "GET", path });
      if (status === READY_STATUS) return;
      last = `it answers ${status} ${text.slice(0, 500)}`;
    } catch (error) {
      last = messageOf(error);
    }
    await pause(POLL_MS, deadline);
  }
  const wanted = `expected status ${READY_STATUS} from GET ${path}`;
  const message = `${last} after ${READY_MS_MAX / 1000} s, ${wanted}`;
  throw new AgentError("timeout", message);
}
