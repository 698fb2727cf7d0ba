// `zonewright install` and `zonewright uninstall`: the agent as a service of systemd or SMF. They work on
// this machine, not through an agent.

import { resolve } from "@std/path";
import { AgentError } from "../domain/error.ts";
import { nearest } from "../domain/near_word.ts";
import { installableSelf, selfCommand } from "../runtime/executable.ts";
import { runCommand } from "../host/program.ts";
import { definitionText, installService, uninstallService } from "../service/installation.ts";
import {
  type Run,
  SERVICE_MANAGERS,
  SERVICE_NAME,
  type ServiceManager,
} from "../service/manager.ts";
import { cannot, type Flag } from "./command/arguments.ts";
import { EXIT, type ExitCode, type Invocation, type Noun } from "./command/command.ts";

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
    `install for ${JSON.stringify(word)}: expected ${SERVICE_MANAGERS.join(" or ")}` +
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
    throw cannot("use --user with smf: in a global zone vmadm needs root: expected systemd");
  }
  if (!USER.test(user)) {
    throw cannot(`use --user ${JSON.stringify(user)}: expected the name of a user`);
  }
  return { user };
}

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

async function install(call: Invocation): Promise<ExitCode> {
  const { args, printer, terminal } = call;
  const manager = managerOf(call);
  const user = userOf(call, manager);
  const start = !args.has("no-start");
  const { file, runtime } = installableSelf();
  if (manager === "systemd" && runtime.length > 0) {
    const message = "Cannot install for systemd what runs on Node: expected the binary, make build";
    throw new AgentError("conflict", message);
  }
  const definition = { manager, ...user, start, runtime };
  if (args.has("print")) {
    terminal.out(definitionText(definition));
    return EXIT.ok;
  }
  if (!selfCommand().compiled) {
    throw new AgentError("conflict", "Cannot install from source: expected the binary, make build");
  }
  const root = rootOf(call);
  const tools = { program: file, ...runnerFor(root) };
  const report = await installService({ ...definition, ...root }, tools);
  if (printer.json) {
    printer.document(report);
    return EXIT.ok;
  }
  for (const path of report.written) printer.data(`wrote  ${path}`);
  for (const path of report.kept) printer.data(`kept   ${path}`);
  for (const line of report.ran) printer.data(`ran    ${line}`);
  printer.next("doctor", "check that everything it needs is there");
  return EXIT.ok;
}

export const UNINSTALL: Noun = {
  kind: "command",
  command: {
    summary: "stop and remove the service; configuration and state stay",
    operands: "systemd|smf",
    examples: [["uninstall systemd", "lists what holds data and stays"]],
    flags: [ROOT_FLAG],
    shared: "output",
    async run(call) {
      const { printer } = call;
      const manager = managerOf(call);
      const root = rootOf(call);
      const report = await uninstallService({ manager, ...root }, runnerFor(root));
      if (printer.json) {
        printer.document(report);
        return EXIT.ok;
      }
      for (const line of report.ran) printer.data(`ran      ${line}`);
      for (const path of report.removed) printer.data(`removed  ${path}`);
      for (const path of report.kept) printer.data(`kept     ${path}`);
      if (report.known === false) {
        printer.note(
          `${SERVICE_NAME[manager]} was not known to ${manager}; there was nothing to stop`,
        );
      }
      if (report.removed.length === 0) printer.note(`${SERVICE_NAME[manager]} is not installed`);
      return EXIT.ok;
    },
  },
};
