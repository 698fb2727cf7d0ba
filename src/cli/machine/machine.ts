// `zonewright machine`: the machines of the host.

import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import { BRANDS } from "../../domain/policy.ts";
import { numberIn, readObject, readObjects, textIn } from "../client/api_call.ts";
import { cannot, type Flag } from "../command/arguments.ts";
import { otherJobHint } from "../command/failure.ts";
import {
  type Command,
  confirmed,
  EXIT,
  type ExitCode,
  type Invocation,
  type Noun,
  YES_FLAG,
} from "../command/command.ts";
import { CONSOLE, machinePath, VNC, vncOf, vncText } from "./console.ts";
import { CREATE } from "./create.ts";
import { printable } from "../output/terminal.ts";
import {
  follow,
  FOLLOW_FLAGS,
  followedExit,
  stays,
  timeoutMsOf,
  viewFor,
} from "../follow/follow.ts";
import { BOOT_OPTIONS } from "../../domain/machine/action.ts";

// `zonewright machine boot`, `stop`, `reboot`, `eject` and `delete`: what is done to a machine after it
// was made. Each is a job, which can be left alone, waited for or followed.

/** What differs between the actions. */
interface Action {
  readonly summary: string;
  readonly examples: Command["examples"];
  readonly flags: readonly Flag[];
  readonly notes?: readonly string[];
  /** How it is sent. */
  request(call: Invocation, path: string): { method: string; path: string; body?: JsonObject };
  /** What is printed once it is done. */
  readonly done: string;
  /** What a person is asked before; nothing when nobody is asked. */
  readonly deed?: (uuid: string) => string;
}

const FORCE: Flag = { name: "force", help: "at once, without asking the guest" };
/** `--timeout` is how long the command itself waits. */
const FORCE_AFTER: Flag = {
  name: "force-after",
  placeholder: "SECONDS",
  help: "how long the guest may take to power off, at most and by default 180",
};

function actionCommand(action: Action): Command {
  return {
    summary: action.summary,
    operands: "MACHINE",
    operandsMin: 1,
    operandsMax: 1,
    examples: action.examples,
    flags: [...action.flags, ...FOLLOW_FLAGS],
    ...(action.notes === undefined ? {} : { notes: action.notes }),
    shared: "agent",
    run: (call) => act(call, action),
    hint: (error) => otherJobHint(error, []),
  };
}

async function act(call: Invocation, action: Action): Promise<ExitCode> {
  timeoutMsOf(call);
  const { args, client, printer } = call;
  const [uuid = ""] = args.operands;
  const asks = action.deed !== undefined && !args.has("curl");
  if (asks && !await confirmed(call, action.deed(uuid))) {
    printer.note("nothing changed");
    return EXIT.failure;
  }
  const sent = await client.send(action.request(call, machinePath(uuid)));
  if (sent.kind === "printed") return EXIT.ok;
  const started = readObject(sent.body, "the job");
  const job_uuid = textIn(started, "job_uuid") ?? "";
  if (!stays(call)) {
    if (printer.json) printer.document(started);
    else printer.pairs([["machine", textIn(started, "uuid") ?? uuid], ["job", job_uuid]]);
    printer.next(`job tail ${job_uuid}`, "watch it");
    return EXIT.ok;
  }
  const followed = await follow(call, job_uuid, viewFor(call));
  const code = followedExit(call, job_uuid, followed);
  if (printer.json && followed.kind === "ended") {
    printer.document({ ...started, execution: followed.job.execution });
  } else if (code === EXIT.ok) printer.data(`${uuid} ${action.done}`);
  return code;
}

/** The flags that were given, as fields of a body. */
function fieldsOf({ args }: Invocation, names: readonly string[]): JsonObject {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = args.text(name);
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

function forceOf({ args }: Invocation): JsonObject {
  const seconds = args.text("force-after");
  if (seconds !== undefined && !/^\d{1,3}$/.test(seconds)) {
    throw cannot(`use --force-after ${JSON.stringify(seconds)}: expected seconds, such as 30`);
  }
  return {
    ...(args.has("force") ? { force: true } : {}),
    ...(seconds === undefined ? {} : { timeout: Number(seconds) }),
  };
}

/** `zonewright machine boot`. */
const BOOT = actionCommand({
  summary: "start a machine; a running one is left alone",
  examples: [
    ['machine boot "$UUID"', "from its disk"],
    ['machine boot "$UUID" --cdrom /debian.iso --once d --wait', "once from a medium in its zone"],
  ],
  flags: [
    { name: "cdrom", placeholder: "/NAME", help: "attach this ISO of the zone for this run (kvm)" },
    { name: "disk", placeholder: "/NAME", help: "attach this disk image for this run (kvm)" },
    { name: "order", placeholder: "cd", help: "letters tried in turn: c disk, d CD, n network" },
    { name: "once", placeholder: "d", help: "the letter that the first boot of this run tries" },
  ],
  notes: ["A bhyve machine boots what is attached to it, and takes none of these flags."],
  request: (call, path) => ({
    method: "POST",
    path: `${path}/boot`,
    body: fieldsOf(call, BOOT_OPTIONS),
  }),
  done: "running",
});

/** `zonewright machine stop`. */
const STOP = actionCommand({
  summary: "stop a machine; a stopped one is left alone",
  examples: [
    ['machine stop "$UUID" --wait', "asks the guest, and forces it after three minutes"],
    ['machine stop "$UUID" --force', "at once, like a power cut"],
  ],
  flags: [FORCE, FORCE_AFTER],
  request: (call, path) => ({ method: "POST", path: `${path}/stop`, body: forceOf(call) }),
  done: "stopped",
});

/** `zonewright machine reboot`. */
const REBOOT = actionCommand({
  summary: "stop a running machine and start it again, without its medium",
  examples: [['machine reboot "$UUID" --wait', "asks the guest to power off first"]],
  flags: [FORCE, FORCE_AFTER],
  request: (call, path) => ({ method: "POST", path: `${path}/reboot`, body: forceOf(call) }),
  done: "running",
});

/** `zonewright machine eject`. */
const EJECT = actionCommand({
  summary: "take the installation medium out of a stopped machine",
  examples: [
    ['machine eject "$UUID" --wait', "every known medium in its zone"],
    ['machine eject "$UUID" --file /debian.iso', "this one"],
  ],
  flags: [{
    name: "file",
    placeholder: "/NAME",
    many: true,
    help: "the medium as the machine sees it (repeatable)",
  }],
  request: ({ args }, path) => ({
    method: "POST",
    path: `${path}/eject`,
    body: args.has("file") ? { files: [...args.texts("file")] } : {},
  }),
  done: "ejected",
});

/** `zonewright machine delete`. */
const DELETE = actionCommand({
  summary: "delete a machine with its disks, its zone and its media",
  examples: [
    ['machine delete "$UUID"', "asks first"],
    ['machine delete "$UUID" --yes --wait', "without a question; waits until it is gone"],
  ],
  flags: [YES_FLAG],
  request: (_, path) => ({ method: "DELETE", path }),
  done: "deleted",
  deed: (uuid) => `delete machine ${uuid} with everything on its disks`,
});

// `zonewright machine leftovers`: what failed jobs have left on the host.

const LEFTOVERS: Command = {
  summary: "list leftovers of failed jobs, which the agent keeps trying to remove",
  operands: "",
  operandsMin: 0,
  operandsMax: 0,
  examples: [
    ["machine leftovers", "usually nothing"],
    ["machine leftovers --json", "with the error of the latest attempt"],
  ],
  flags: [],
  shared: "agent",
  async run({ client, printer }) {
    const sent = await client.send({ method: "GET", path: "/agent/v1/leftovers" });
    if (sent.kind === "printed") return EXIT.ok;
    const left = readObjects(sent.body, "what is left");
    if (printer.json) {
      printer.document(left);
      return EXIT.ok;
    }
    printer.table(
      [
        { head: "MACHINE" },
        { head: "JOB" },
        { head: "TRIES", right: true },
        { head: "NEXT TRY" },
        { head: "ERROR", flexible: true },
      ],
      left.map((leftover) => [
        textIn(leftover, "uuid") ?? "",
        textIn(leftover, "job_uuid") ?? "",
        String(numberIn(leftover, "tries") ?? 0),
        textIn(leftover, "next_try_at") ?? "-",
        textIn(leftover, "error") ?? "-",
      ]),
    );
    return EXIT.ok;
  },
};

/** Flags of `machine list` that are keys of the query, under the same names. */
const FILTERS: readonly Flag[] = [
  {
    name: "state",
    placeholder: "STATE",
    help: "such as running or stopped; absent is not created yet",
  },
  { name: "brand", placeholder: "BRAND", words: BRANDS, help: "kvm or bhyve" },
  { name: "alias", placeholder: "NAME", help: "with this name" },
  { name: "limit", placeholder: "N", help: "at most this many" },
  { name: "offset", placeholder: "N", help: "skip this many" },
];

const LIST: Command = {
  summary: "list the machines of the host",
  operands: "",
  operandsMin: 0,
  operandsMax: 0,
  examples: [
    ["machine list", "with their brand and state"],
    ["machine list --state running --json", "running ones, for scripts"],
  ],
  flags: FILTERS,
  shared: "agent",
  async run({ args, client, printer }) {
    const query = new URLSearchParams(
      FILTERS.flatMap(({ name }) => {
        const value = args.text(name);
        return value === undefined ? [] : [[name, value]];
      }),
    );
    const path = `/agent/v1/machines${query.size === 0 ? "" : `?${query}`}`;
    const sent = await client.send({ method: "GET", path });
    if (sent.kind === "printed") return EXIT.ok;
    const machines = readObjects(sent.body, "the machines");
    if (printer.json) printer.document(machines);
    else {
      printer.table(
        [
          { head: "UUID" },
          { head: "ALIAS", flexible: true },
          { head: "BRAND" },
          { head: "STATE" },
          { head: "RAM MIB", right: true },
          { head: "JOB" },
        ],
        machines.map((machine) => [
          textIn(machine, "uuid") ?? "",
          textIn(machine, "alias") ?? "-",
          textIn(machine, "brand") ?? "-",
          textIn(machine, "state") ?? "-",
          String(numberIn(machine, "ram") ?? "-"),
          textIn(machine, "job_execution") ?? "-",
        ]),
      );
    }
    return EXIT.ok;
  },
};

const GET: Command = {
  summary: "show one machine with its console and its job",
  operands: "MACHINE",
  operandsMin: 1,
  operandsMax: 1,
  examples: [['machine get "$UUID"', "state, VNC address, medium, job"]],
  flags: [],
  shared: "agent",
  async run({ args, client, printer }) {
    const sent = await client.send({ method: "GET", path: machinePath(args.operands[0] ?? "") });
    if (sent.kind === "printed") return EXIT.ok;
    const machine = readObject(sent.body, "the machine");
    if (printer.json) {
      printer.document(machine);
      return EXIT.ok;
    }
    const vnc = vncOf(machine);
    const word = (key: string): [string, string] => [key, printable(textIn(machine, key) ?? "-")];
    printer.pairs([
      ["machine", textIn(machine, "uuid") ?? "-"],
      word("alias"),
      word("brand"),
      word("state"),
      ["vnc", vnc === undefined ? "-" : vncText(vnc)],
      ["console", textIn(machine, "console") ?? "-"],
      ["media", mediaText(machine)],
      ["medium", printable(textIn(machine, "medium") ?? "-")],
      ["job", [textIn(machine, "job_uuid") ?? "-", textIn(machine, "job_execution")].join(" ")],
    ]);
    return EXIT.ok;
  },
};

function mediaText({ media }: JsonObject): string {
  if (!isJsonObject(media)) return "-";
  return printable(textIn(media, "path") ?? textIn(media, "url") ?? JSON.stringify(media));
}

/** @see document 3 */
export const MACHINE: Noun = {
  kind: "verbs",
  summary: "create, boot, stop and delete machines",
  verbs: {
    create: CREATE,
    list: LIST,
    get: GET,
    vnc: VNC,
    console: CONSOLE,
    boot: BOOT,
    stop: STOP,
    reboot: REBOOT,
    eject: EJECT,
    delete: DELETE,
    leftovers: LEFTOVERS,
  },
};
