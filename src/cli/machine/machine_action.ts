// `zonewright machine boot`, `stop`, `reboot`, `eject` and `delete`: what is done to a machine after it
// was made. Each is a job, which can be left alone, waited for or followed.

import type { JsonObject } from "../../domain/json.ts";
import { readObject, textIn } from "../kit/answer.ts";
import { type Flag, usageError } from "../kit/arguments.ts";
import type { Call, Command } from "../kit/command.ts";
import { confirmed, YES_FLAG } from "../kit/confirm.ts";
import { EXIT, type ExitCode } from "../kit/exit_code.ts";
import {
  follow,
  FOLLOW_FLAGS,
  followedExit,
  stays,
  timeoutMsOf,
  viewFor,
} from "../follow/follow.ts";
import { otherJobHint } from "../kit/hint.ts";
import { machinePath } from "./machine_vnc.ts";

/** What differs between the actions. */
interface Action {
  readonly summary: string;
  readonly examples: Command["examples"];
  readonly flags: readonly Flag[];
  readonly notes?: readonly string[];
  /** How it is sent. */
  request(call: Call, path: string): { method: string; path: string; body?: JsonObject };
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

async function act(call: Call, action: Action): Promise<ExitCode> {
  timeoutMsOf(call);
  const { args, client, printer } = call;
  const [uuid = ""] = args.operands;
  const asks = action.deed !== undefined && !args.has("curl");
  if (asks && !await confirmed(call, action.deed(uuid))) {
    printer.note("nothing was changed");
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
function fieldsOf({ args }: Call, names: readonly string[]): JsonObject {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = args.text(name);
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

function forceOf({ args }: Call): JsonObject {
  const seconds = args.text("force-after");
  if (seconds !== undefined && !/^\d{1,3}$/.test(seconds)) {
    throw usageError("--force-after takes seconds, such as 30");
  }
  return {
    ...(args.has("force") ? { force: true } : {}),
    ...(seconds === undefined ? {} : { timeout: Number(seconds) }),
  };
}

/** `zonewright machine boot`. */
export const BOOT = actionCommand({
  summary: "start a machine; one that runs is left as it is",
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
    body: fieldsOf(call, ["cdrom", "disk", "order", "once"]),
  }),
  done: "running",
});

/** `zonewright machine stop`. */
export const STOP = actionCommand({
  summary: "stop a machine; one that is stopped is left as it is",
  examples: [
    ['machine stop "$UUID" --wait', "its guest is asked, and forced after three minutes"],
    ['machine stop "$UUID" --force', "at once, as by a power cut"],
  ],
  flags: [FORCE, FORCE_AFTER],
  request: (call, path) => ({ method: "POST", path: `${path}/stop`, body: forceOf(call) }),
  done: "stopped",
});

/** `zonewright machine reboot`. */
export const REBOOT = actionCommand({
  summary: "stop a running machine and start it again, without its medium",
  examples: [['machine reboot "$UUID" --wait', "its guest is asked to power off first"]],
  flags: [FORCE, FORCE_AFTER],
  request: (call, path) => ({ method: "POST", path: `${path}/reboot`, body: forceOf(call) }),
  done: "running",
});

/** `zonewright machine eject`. */
export const EJECT = actionCommand({
  summary: "take the installation medium out of a stopped machine",
  examples: [
    ['machine eject "$UUID" --wait', "every medium that is known to be in its zone"],
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
export const DELETE = actionCommand({
  summary: "delete a machine with its disks, its zone and its media",
  examples: [
    ['machine delete "$UUID"', "asks first"],
    ['machine delete "$UUID" --yes --wait', "without a question, until it is gone"],
  ],
  flags: [YES_FLAG],
  request: (_, path) => ({ method: "DELETE", path }),
  done: "deleted",
  deed: (uuid) => `delete machine ${uuid} with everything on its disks`,
});
