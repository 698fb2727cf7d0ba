// `zonewright machine create`: from a description and a medium to a console, in one command.

import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";
import { BRANDS } from "../../domain/policy.ts";
import { numberIn, objectsAt, readObject, textIn } from "../client/answer.ts";
import {
  type Command,
  type CommandEnd,
  EXIT,
  type ExitCode,
  type Invocation,
} from "../command/command.ts";
import { checkTimeout, follow, FOLLOW_FLAGS, stays, viewFor } from "../follow/follow.ts";
import { failedStep, type JobAnswer, noteAbsent } from "../client/job.ts";
import { vncOf, vncText } from "./console.ts";
import type { MediaRequest } from "../../domain/machine/media.ts";
import { nearest } from "../../domain/near_word.ts";
import {
  type Arguments,
  cannot,
  type Flag,
  IDEMPOTENCY_FLAG,
  idempotencyHeaders,
  isReplayed,
  ON_FLAG,
  usageError,
} from "../command/arguments.ts";
import { isUuid } from "../../domain/id.ts";
import { SERVER_PARAM } from "../../domain/job/job.ts";
import {
  readJsonFile,
  SHA512_FLAG,
  typedArtifact,
  typedDigest,
  typedMedium,
} from "../command/typed_value.ts";
import { sizeOrDash } from "../output/table.ts";
import { MACHINE_REQUEST_KEYS } from "../../domain/machine/machine.ts";

/** The flags that name a medium; exactly one of them is given. */
const MEDIA_FLAGS: readonly Flag[] = [
  { name: "iso", placeholder: "MEDIUM", help: "boot from this ISO: NAME, PATH or URL" },
  { name: "disk", placeholder: "MEDIUM", help: "boot from this raw disk image instead (kvm)" },
  {
    name: "artifact",
    placeholder: "DISTRO/RELEASE",
    help: "boot from a file of the image index; see below",
  },
  { name: "sha256", placeholder: "HEX", help: "expected digest; a URL needs one" },
  SHA512_FLAG,
  { name: "boot", placeholder: "cd|disk", help: "what the medium is, if its name does not say" },
];

const MEDIA_NOTES: readonly string[] = [
  "A MEDIUM is a URL (https://host/debian.iso, with --sha256), a path on the agent's host\n" +
  "(/media/debian.iso, or ./debian.iso), DISTRO/RELEASE of the image index (debian/13), or the\n" +
  "name of a file in one of the agent's media folders (debian.iso).",
  "An artifact is DISTRO/RELEASE[:BUILD][?variant=V&arch=A&format=F]; RELEASE may be latest, lts\n" +
  "or dev. The agent chooses what is left out; see zonewright image list DISTRO/RELEASE.",
];

/** The medium and how it is attached; the agent chooses `boot` unless it is given. */
interface Media {
  readonly media: MediaRequest;
  readonly boot?: "cd" | "disk";
}

const SOURCES = ["iso", "disk", "artifact"] as const;

/** Reads the flags that name a medium. @throws {AgentError} `invalid_argument` */
function mediaOf(args: Arguments, cwd: string): Media {
  const given = SOURCES.filter((name) => args.has(name));
  const [source] = given;
  if (source === undefined) {
    throw usageError(
      'a medium is missing, expected --iso, --disk, --artifact, or "media" in the file',
    );
  }
  if (given.length > 1) {
    throw usageError(
      `${given.map((name) => `--${name}`).join(" and ")} are both given, expected one medium`,
    );
  }
  const text = args.text(source) ?? "";
  const digest = typedDigest(args);
  const media = source === "artifact"
    ? { artifact: typedArtifact(text) }
    : typedMedium(text, `--${source} ${text}`.trimEnd(), cwd);
  if ("url" in media) {
    if (digest === undefined) {
      throw cannot(`use --${source} ${text}: it is a URL, expected its --sha256 as well`);
    }
    return { media: { url: media.url, digest }, ...bootOf(args, source) };
  }
  return {
    media: { ...media, ...(digest === undefined ? {} : { digest }) },
    ...("artifact" in media ? bootOf(args, undefined) : bootOf(args, source)),
  };
}

/**
 * How the medium is attached, by --boot or by the flag that names it.
 * @throws {AgentError} `invalid_argument`
 */
function bootOf(args: Arguments, source: "iso" | "disk" | "artifact" | undefined): {
  boot?: "cd" | "disk";
} {
  const boot = args.text("boot");
  if (boot === undefined) {
    return source === "iso" ? { boot: "cd" } : source === "disk" ? { boot: "disk" } : {};
  }
  if (boot !== "cd" && boot !== "disk") {
    throw cannot(`use --boot ${JSON.stringify(boot)}, expected cd or disk`);
  }
  return { boot };
}

/** Keys that only a request has. */
const TELLING_KEYS = ["machine", "media"] as const;

/**
 * The body of POST /agent/v1/machines, from a file and from flags. The file may contain a
 * description as vmadm takes it, or a whole request around one, as in README.md and the HTTP
 * interface. A flag may not repeat what the file says: which of the two counts would be a guess.
 * @throws {AgentError} `invalid_argument`, `not_found`
 */
async function machineRequestOf({ args, terminal }: Invocation): Promise<JsonObject> {
  const file = args.text("file");
  if (file === undefined) {
    throw usageError("-f FILE is missing, expected a machine, or a request for one, as JSON");
  }
  const uuid = args.text("uuid")?.toLowerCase();
  if (uuid !== undefined && !isUuid(uuid)) {
    throw cannot(`use --uuid ${JSON.stringify(uuid)}, expected a uuid`);
  }
  const content = await readJsonFile(file, terminal);
  const where = file === "-" ? "standard input" : file;
  const request = TELLING_KEYS.some((key) => Object.hasOwn(content, key))
    ? wholeRequest(content, where)
    : { machine: content };
  refuseTwice(request, args, where);
  const brand = args.text("brand");
  const on = args.text("on");
  const { machine } = request;
  return {
    ...request,
    // The agent refuses what is not an object.
    ...(brand === undefined || !isJsonObject(machine) ? {} : { machine: { ...machine, brand } }),
    ...(request.media === undefined ? mediaFields(args, terminal.cwd) : bootOf(args, undefined)),
    ...(uuid === undefined ? {} : { uuid }),
    ...(on === undefined ? {} : { [SERVER_PARAM]: on }),
  };
}

/** @throws {AgentError} `invalid_argument` for a request with other keys, or without a machine */
function wholeRequest(content: JsonObject, where: string): JsonObject & { machine: JsonValue } {
  const other = Object.keys(content).find((key) =>
    !MACHINE_REQUEST_KEYS.some((known) => known === key)
  );
  const found = TELLING_KEYS.filter((key) => Object.hasOwn(content, key))[0];
  if (other !== undefined) {
    throw cannot(
      `read ${where}: it mixes a request and a description: it has ${JSON.stringify(found)} and ` +
        `${JSON.stringify(other)}${
          nearest(other, MACHINE_REQUEST_KEYS)
        }, expected a description alone, ` +
        `or ${MACHINE_REQUEST_KEYS.join(", ")} with the description in "machine"`,
    );
  }
  const { machine, media, boot } = content;
  if (machine === undefined) {
    throw cannot(`read ${where}: it has "media" and no "machine", expected both`);
  }
  // Each of the flags that name a medium also says how it is attached.
  if (media === undefined && boot !== undefined) {
    throw cannot(`read ${where}: it has "boot" and no "media", expected both or neither`);
  }
  return { ...content, machine };
}

/** @throws {AgentError} `invalid_argument` when a flag repeats what the file says */
function refuseTwice(request: JsonObject, args: Arguments, where: string): void {
  const said: readonly (readonly [key: string, flags: readonly string[]])[] = [
    ["media", MEDIA_FLAGS.map(({ name }) => name).filter((name) => name !== "boot")],
    ["boot", ["boot"]],
    ["uuid", ["uuid"]],
  ];
  for (const [key, flags] of said) {
    const flag = flags.find((name) => args.has(name));
    if (flag !== undefined && Object.hasOwn(request, key)) {
      throw usageError(
        `--${flag} and ${JSON.stringify(key)} in ${where} are both given, expected one`,
      );
    }
  }
}

function mediaFields(args: Arguments, cwd: string): JsonObject {
  const { media, boot } = mediaOf(args, cwd);
  // All its values are strings, so a media request is already JSON.
  return { media: media as JsonValue, ...(boot === undefined ? {} : { boot }) };
}

/**
 * `zonewright machine create`: POST /agent/v1/machines from a file, with the medium from flags.
 * @see docs/machines.md
 */
export const CREATE: Command = {
  summary: "create a machine, boot it from a medium and print its VNC address",
  examples: [
    [
      "machine create -f vm.json --iso debian-13.iso --follow",
      "an ISO in a media folder; watch it",
    ],
    ["machine create -f vm.json --iso https://host/a.iso --sha256 $HEX", "an ISO from elsewhere"],
    ["machine create -f - --artifact omnios/latest --wait --json", "an image of the index"],
    ["machine create -f request.json --follow", "a whole request, as the HTTP API takes it"],
    ["machine create -f vm.json --iso a.iso --idempotency-key $ORDER", "safe to repeat"],
    ["machine create -f vm.json --iso a.iso --dry-run", "all checks, and nothing is created"],
  ],
  flags: [
    {
      name: "file",
      short: "f",
      placeholder: "FILE",
      help: "JSON: the description as vmadm takes it, or a whole request; - is standard input",
    },
    ...MEDIA_FLAGS,
    {
      name: "brand",
      placeholder: "BRAND",
      words: BRANDS,
      help: "kvm or bhyve, instead of the description's",
    },
    {
      name: "uuid",
      placeholder: "UUID",
      help: "the machine's uuid; makes the call safe to repeat",
    },
    ON_FLAG,
    IDEMPOTENCY_FLAG,
    {
      name: "dry-run",
      help: "make every check that is possible now, and nothing else; exits 1 if it is refused",
    },
    ...FOLLOW_FLAGS,
  ],
  notes: [
    ...MEDIA_NOTES,
    'A whole request is {"machine": …, "media": …}, with "boot" and "uuid" if needed. A flag cannot\n' +
    "repeat what the request says; if it has no media, name the medium with a flag.",
  ],
  shared: "agent",
  async run(call) {
    checkTimeout(call);
    const body = await machineRequestOf(call);
    const headers = idempotencyHeaders(call.args);
    const path = "/agent/v1/machines";
    const isDry = call.args.has("dry-run");
    const request = isDry ? { ...body, dry_run: true } : body;
    const sent = await call.client.send({ method: "POST", path, body: request, headers });
    if (isDry) return showDryRun(call, readObject(sent.body, "the dry run"));
    const started = readObject(sent.body, "the machine");
    const uuid = textIn(started, "uuid") ?? "";
    const job_uuid = textIn(started, "job_uuid") ?? "";
    const { printer } = call;
    if (isReplayed(sent.headers)) {
      printer.note(`machine ${uuid} was requested by the same call before`);
    }
    noteAbsent(printer, started);
    if (!stays(call)) {
      if (printer.json) printer.document(started);
      else printer.pairs([["machine", uuid], ["job", job_uuid], consoleLine(uuid)]);
      printer.next(`job tail ${job_uuid}`, "watch it");
      return EXIT.ok;
    }
    const view = viewFor(call, job_uuid);
    // For programs it is one of the lines: standard error is kept for a single error object.
    const note = printer.json ? view.note : printer.note;
    if (call.args.has("follow")) note(`machine ${uuid}, job ${job_uuid}`);
    const { code, job } = await follow(call, job_uuid, view);
    if (code === EXIT.ok) return await showMachine(call, uuid);
    if (job !== undefined && printer.json) {
      printer.document({ uuid, job_uuid, ...endOfJob(job) });
    }
    return code;
  },
};

/** What would be created, or every reason why not. */
function showDryRun({ printer }: Invocation, checked: JsonObject): ExitCode {
  const possible = checked.possible === true;
  const code = possible ? EXIT.ok : EXIT.failure;
  if (printer.json) {
    printer.document(checked);
    return code;
  }
  const medium = isJsonObject(checked.medium) ? checked.medium : {};
  const machine = isJsonObject(checked.machine) ? checked.machine : {};
  const size = numberIn(medium, "size");
  const ram = numberIn(machine, "ram");
  printer.pairs([
    ["machine", textIn(machine, "alias") ?? textIn(checked, "uuid") ?? "unnamed"],
    ["brand", textIn(machine, "brand") ?? "-"],
    ["ram", ram === undefined ? "as vmadm chooses" : `${ram} MiB`],
    ["medium", textIn(medium, "name") ?? "unknown"],
    ["size", sizeOrDash(size)],
    ["boot", textIn(checked, "boot") ?? "-"],
    ["result", possible ? "would be made; nothing was made" : "would be refused"],
  ]);
  for (const problem of objectsAt(checked, "problems")) {
    printer.data(`problem: ${textIn(problem, "message") ?? ""}`);
  }
  const { unchecked } = checked;
  for (const words of Array.isArray(unchecked) ? unchecked : []) {
    printer.note(String(words));
  }
  return code;
}

/** How a job ended without making its machine; `error` is null if no task failed. */
function endOfJob(job: JobAnswer): JsonObject {
  const step = failedStep(job);
  const error = step === undefined ? null : { task: step.name, message: step.error ?? "" };
  return { execution: textIn(job.raw, "execution") ?? "", error };
}

/** The command that opens the console of a running machine. */
function consoleLine(uuid: string): readonly [string, string] {
  return ["see it", `zonewright machine console ${uuid}`];
}

async function showMachine({ client, printer }: Invocation, uuid: string): Promise<CommandEnd> {
  const machine = readObject(await client.get(`/agent/v1/machines/${uuid}`), "the machine");
  if (printer.json) return printer.document(machine);
  const vnc = vncOf(machine);
  printer.pairs([
    ["machine", uuid],
    ["vnc", vnc === undefined ? "unknown" : vncText(vnc)],
    ...(vnc === undefined ? [] : [consoleLine(uuid)]),
  ]);
  if (vnc !== undefined) {
    printer.next(`machine vnc ${uuid} --password`, "what a VNC viewer asks for");
  }
}
