// `zonewright machine`: the machines of the hosts, and actions on them. Each action is a job, which can be left
// alone, waited for or followed.

import { BYTES_PER_MIB } from "../../domain/bytes.ts";
import { isJsonObject, type JsonObject, objectsIn } from "../../domain/json.ts";
import { BOOT_OPTIONS, STOP_SECONDS_MAX } from "../../domain/machine/action.ts";
import { MACHINE_REPORT_MS } from "../../domain/machine/shown.ts";
import { BRANDS } from "../../domain/policy.ts";
import {
  numberCell,
  numberIn,
  readObject,
  readObjects,
  textCell,
  textIn,
} from "../client/answer.ts";
import type { Client } from "../client/client.ts";
import { cannot, type Flag, usageError } from "../command/arguments.ts";
import {
  type Command,
  EXIT,
  type ExitCode,
  type Invocation,
  type Noun,
  YES_FLAG,
} from "../command/command.ts";
import { isSure, machineNamed, machinePath, uuidColumn } from "../command/named.ts";
import { CONSOLE, VNC, vncOf, vncText } from "./console.ts";
import { CREATE } from "./create.ts";
import { HOST_FLAG, LEFTOVERS } from "./leftovers.ts";
import { checkTimeout, follow, FOLLOW_FLAGS, stays } from "../follow/follow.ts";
import { executionWord, noteAbsent } from "../client/job.ts";
import { ageText, msText, sizeOrDash } from "../output/table.ts";
import { stateStyle } from "../output/terminal.ts";

interface Action {
  readonly summary: string;
  readonly examples: Command["examples"];
  readonly flags: readonly Flag[];
  readonly notes?: readonly string[];
  request(call: Invocation, path: string): { method: string; path: string; body?: JsonObject };
  /** Printed once it is done. */
  readonly done: string;
  /** What to confirm first of the named machine; not given if no confirmation is needed. */
  readonly question?: (machine: string) => string;
}

const FORCE: Flag = { name: "force", help: "at once, without asking the guest" };
/** Not `--timeout`, which is how long the command itself waits. */
const FORCE_AFTER: Flag = {
  name: "force-after",
  placeholder: "SECONDS",
  help: `how long the guest may take to power off, at most and by default ${STOP_SECONDS_MAX}`,
};

function actionCommand(action: Action): Command {
  return {
    summary: action.summary,
    operands: "MACHINE",
    examples: action.examples,
    flags: [...action.flags, ...FOLLOW_FLAGS],
    ...(action.notes === undefined ? {} : { notes: action.notes }),
    shared: "agent",
    run: (call) => act(call, action),
  };
}

async function act(call: Invocation, action: Action): Promise<ExitCode> {
  checkTimeout(call);
  const { args, client, printer } = call;
  const machine = await machineNamed(call, args.operand);
  const { uuid } = machine;
  if (
    action.question !== undefined &&
    !await isSure(call, "machine", "delete", action.question, machine)
  ) {
    return EXIT.failure;
  }
  const sent = await client.send(action.request(call, `/agent/v1/machines/${uuid}`));
  const started = readObject(sent.body, "the job");
  const job_uuid = textIn(started, "job_uuid") ?? "";
  noteAbsent(printer, started);
  if (!stays(call)) {
    if (printer.json) printer.document(started);
    else printer.pairs([["machine", textIn(started, "uuid") ?? uuid], ["job", job_uuid]]);
    printer.next(`job tail ${job_uuid}`, "watch it");
    return EXIT.ok;
  }
  const { code, job } = await follow(call, job_uuid);
  if (printer.json && job !== undefined) {
    printer.document({ ...started, execution: textIn(job.raw, "execution") ?? "" });
  } else if (code === EXIT.ok) printer.data(`${uuid} ${action.done}`);
  return code;
}

function bootFieldsOf({ args }: Invocation): JsonObject {
  return Object.fromEntries(
    BOOT_OPTIONS.flatMap((name) => {
      const value = args.text(name);
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

function forceOf({ args }: Invocation): JsonObject {
  const seconds = args.text("force-after");
  if (seconds !== undefined) {
    // The agent would call it timeout, which is another flag here.
    if (!/^\d{1,3}$/.test(seconds) || Number(seconds) < 1 || Number(seconds) > STOP_SECONDS_MAX) {
      throw cannot(
        `use --force-after ${
          JSON.stringify(seconds)
        }, expected seconds from 1 to ${STOP_SECONDS_MAX}`,
      );
    }
    if (args.has("force")) {
      throw usageError("--force and --force-after are both given, expected one of them");
    }
  }
  return {
    ...(args.has("force") ? { force: true } : {}),
    ...(seconds === undefined ? {} : { timeout: Number(seconds) }),
  };
}

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
    body: bootFieldsOf(call),
  }),
  done: "running",
});

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

const REBOOT = actionCommand({
  summary: "stop a running machine and start it again, without its medium",
  examples: [['machine reboot "$UUID" --wait', "asks the guest to power off first"]],
  flags: [FORCE, FORCE_AFTER],
  request: (call, path) => ({ method: "POST", path: `${path}/reboot`, body: forceOf(call) }),
  done: "running",
});

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

const DELETE = actionCommand({
  summary: "delete a machine with its disks, its zone and its media",
  examples: [
    ['machine delete "$UUID"', "asks first"],
    ['machine delete "$UUID" --yes --wait', "without a question; waits until it is gone"],
  ],
  flags: [YES_FLAG],
  request: (_, path) => ({ method: "DELETE", path }),
  done: "deleted",
  question: (machine) => `delete ${machine} with everything on its disks`,
});

/** Flags of `machine list` with the names of query keys. */
const FILTERS: readonly Flag[] = [
  {
    name: "state",
    placeholder: "STATE",
    help: "such as running or stopped; absent is not created yet",
  },
  { name: "brand", placeholder: "BRAND", words: BRANDS, help: "kvm or bhyve" },
  { name: "alias", placeholder: "NAME", help: "with this name" },
  HOST_FLAG,
  { name: "limit", placeholder: "N", help: "at most this many" },
  { name: "offset", placeholder: "N", help: "skip this many" },
];

const NONE_MATCHES = ["no machine matches", "hint: zonewright machine list  shows all of them"];
const NONE_YET = [
  "there are no machines yet",
  "hint: zonewright machine create --help  says how to make one",
];

const LIST: Command = {
  summary: "list the machines of the hosts",
  examples: [
    ["machine list", "with their state, disks and addresses"],
    ["machine list --state running --json", "running ones, for scripts"],
  ],
  flags: FILTERS,
  shared: "agent",
  async run({ args, client, printer, terminal }) {
    const query = new URLSearchParams(
      FILTERS.flatMap(({ name }) => {
        const value = args.text(name);
        return value === undefined ? [] : [[name, value]];
      }),
    );
    const path = `/agent/v1/machines${query.size === 0 ? "" : `?${query}`}`;
    const sent = await client.send({ method: "GET", path });
    const machines = readObjects(sent.body, "the machines");
    const state = args.text("state");
    if (machines.length === 0 && state !== undefined) printer.note(await noneIn(state, client));
    if (printer.json) return printer.document(machines);
    printer.table([
      uuidColumn("UUID", machines),
      { head: "ALIAS", flexible: true, cell: textCell("alias") },
      { head: "BRAND", wide: true, cell: textCell("brand") },
      { head: "STATE", styleOf: stateStyle, cell: stateText },
      { head: "RAM MIB", right: true, cell: numberCell("ram") },
      { head: "DISKS", right: true, wide: true, cell: disksText },
      // Not flexible: part of an address is useless.
      { head: "ADDRESS", cell: addressText },
      {
        head: "AGE",
        right: true,
        wide: true,
        cell: (machine) => ageText(textIn(machine, "created_at"), terminal.nowMs()),
      },
      { head: "HOST", flexible: true, wide: true, cell: textCell("host") },
      {
        head: "JOB",
        wide: true,
        cell: (machine) => executionWord(textIn(machine, "job_execution") ?? "-"),
      },
    ], machines);
    if (machines.length > 0 || state !== undefined) return;
    for (const line of query.size === 0 ? NONE_YET : NONE_MATCHES) printer.note(line);
  },
};

/** The state, and how long ago its host reported it if the reports since are missing: `running (3 h ago)`. */
function stateText(machine: JsonObject): string {
  const state = textIn(machine, "state") ?? "-";
  const ageMs = (numberIn(machine, "age_seconds") ?? 0) * 1000;
  return ageMs <= 2 * MACHINE_REPORT_MS ? state : `${state} (${msText(ageMs)} ago)`;
}

/** There is no complete list of vmadm's states, so a mistyped one is shown along with those on this host. */
async function noneIn(state: string, client: Client): Promise<string> {
  const all = readObjects(await client.get("/agent/v1/machines"), "the machines");
  const states = new Set(all.flatMap((machine) => textIn(machine, "state") ?? []));
  const found = states.size === 0 ? "there are none" : `they are ${[...states].sort().join(", ")}`;
  return `no machine is ${JSON.stringify(state)}: ${found}`;
}

/** The total size of its disks, and their number if there are several: `50 GiB (2)`. */
function disksText({ disks }: JsonObject): string {
  const sizes = objectsIn(disks).flatMap((disk) =>
    textIn(disk, "media") === "cdrom" ? [] : [numberIn(disk, "size") ?? 0]
  );
  if (sizes.length === 0) return "-";
  const text = sizeOrDash(sizes.reduce((sum, size) => sum + size, 0) * BYTES_PER_MIB);
  return sizes.length === 1 ? text : `${text} (${sizes.length})`;
}

/** The first address of the primary nic, and the number of further ones: `192.0.2.69 +1`. */
function addressText({ nics }: JsonObject): string {
  const primaryFirst = objectsIn(nics).toSorted((one, other) =>
    Number(other.primary === true) - Number(one.primary === true)
  );
  const [first, ...more] = addressesOf(primaryFirst);
  if (first === undefined) return "-";
  return more.length === 0 ? first : `${first} +${more.length}`;
}

/** The addresses without their prefixes. */
function addressesOf(nics: readonly JsonObject[]): string[] {
  return nics.flatMap(({ ips }) => Array.isArray(ips) ? ips : [])
    .flatMap((address) => typeof address === "string" ? [address.replace(/\/\d+$/, "")] : []);
}

const GET: Command = {
  summary: "show one machine with its console and its job",
  operands: "MACHINE",
  examples: [['machine get "$UUID"', "state, disks, addresses, console, medium, job"]],
  flags: [],
  shared: "agent",
  async run(call) {
    const { client, printer } = call;
    const sent = await client.send({ method: "GET", path: await machinePath(call) });
    const machine = readObject(sent.body, "the machine");
    if (printer.json) return printer.document(machine);
    const vnc = vncOf(machine);
    const word = (key: string): [string, string] => [key, textIn(machine, key) ?? "-"];
    printer.pairs([
      ["machine", textIn(machine, "uuid") ?? "-"],
      word("alias"),
      word("brand"),
      word("state"),
      ["disks", disksText(machine)],
      ["addresses", addressesOf(objectsIn(machine.nics)).join(", ") || "-"],
      ["created", textIn(machine, "created_at") ?? "-"],
      ["vnc", vnc === undefined ? "-" : vncText(vnc)],
      ["console", textIn(machine, "console") ?? "-"],
      ["media", mediaText(machine)],
      ["medium", textIn(machine, "medium") ?? "-"],
      ["job", jobText(machine)],
    ]);
  },
};

function jobText(machine: JsonObject): string {
  const uuid = textIn(machine, "job_uuid");
  const execution = executionWord(textIn(machine, "job_execution") ?? "");
  return uuid === undefined ? "-" : `${uuid} ${execution}`;
}

function mediaText({ media }: JsonObject): string {
  if (!isJsonObject(media)) return "-";
  return textIn(media, "path") ?? textIn(media, "url") ?? JSON.stringify(media);
}

/** The commands about machines. @see document 3 */
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
