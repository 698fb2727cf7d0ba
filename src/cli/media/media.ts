// `zonewright media`: the verified files of the agent's host.

import { AgentError } from "../../domain/error.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";
import {
  numberIn,
  objectsAt,
  readObject,
  readObjects,
  textCell,
  textIn,
} from "../client/answer.ts";
import { type Arguments, cannot, type Flag, usageError } from "../command/arguments.ts";
import { CANDIDATES_MAX } from "../command/named.ts";
import { SHA512_FLAG, typedDigest, typedMedium } from "../command/typed_value.ts";
import {
  type Command,
  type CommandEnd,
  EXIT,
  type ExitCode,
  type Invocation,
  type Noun,
} from "../command/command.ts";
import { checkTimeout, follow, FOLLOW_FLAGS, stays } from "../follow/follow.ts";
import type { JobAnswer } from "../client/job.ts";
import { sizeOrDash } from "../output/table.ts";
import { CHECK_LEVELS } from "../../domain/digest.ts";
import { MEDIA_COMPRESSIONS, mediaKind } from "../../domain/machine/media.ts";
import { UPLOAD } from "./upload.ts";

const MEDIUM_FLAGS: readonly Flag[] = [
  { name: "sha256", placeholder: "HEX", help: "expected digest of the file as downloaded" },
  SHA512_FLAG,
  {
    name: "compression",
    placeholder: "WORD",
    words: MEDIA_COMPRESSIONS.slice(1),
    help: `of a URL: ${MEDIA_COMPRESSIONS.slice(1).join(", ")}, to unpack`,
  },
  {
    name: "check",
    placeholder: "LEVEL",
    words: CHECK_LEVELS,
    help: `required level: ${CHECK_LEVELS.join(", ")} [the agent's check_min]`,
  },
  { name: "allow-unverified", help: "accept it even below that level" },
];

const MEDIUM_NOTES: readonly string[] = [
  "A MEDIUM is a URL (https://host/a.iso, with --sha256), a path on the agent's host (/media/a.iso,\n" +
  "or ./a.iso), DISTRO/RELEASE[:BUILD][?variant=V&arch=A&format=F] of the image index, or the name\n" +
  "of a file in one of the agent's media folders (a.iso). A file in a media folder stays where it is.",
];

/** Reads operand and flags. @throws {AgentError} `invalid_argument` */
function mediumRequestOf({ args, terminal }: Invocation): JsonObject {
  const [text = ""] = args.operands;
  const digest = typedDigest(args);
  const place = typedMedium(text, text === "" ? "the medium" : text, terminal.cwd);
  const level = wordOf(args, "check", CHECK_LEVELS);
  const compression = wordOf(args, "compression", MEDIA_COMPRESSIONS);
  const allowed = args.has("allow-unverified");
  if ("path" in place && (level !== undefined || allowed)) {
    throw cannot(
      `check ${text} by --check: it is a file on the agent's host, expected a URL or an artifact`,
    );
  }
  if (!("url" in place) && compression !== undefined) {
    throw cannot(`use --compression with ${text}: the index names its own, expected a URL`);
  }
  if ("url" in place && digest === undefined && !allowed) {
    throw cannot(
      `add ${text}: it has no digest, expected its --sha256, or --allow-unverified`,
    );
  }
  return {
    ...(place as JsonObject),
    ...(digest === undefined ? {} : { digest }),
    ...(compression === undefined ? {} : { compression }),
    ...(level === undefined ? {} : { check: level }),
    ...(allowed ? { allow_unverified: true } : {}),
  };
}

function wordOf(args: Arguments, name: string, words: readonly string[]): string | undefined {
  const word = args.text(name);
  if (word === undefined || words.includes(word)) return word;
  throw cannot(`use --${name} ${JSON.stringify(word)}, expected one of ${words.join(", ")}`);
}

const ADD: Command = {
  summary: "download a file to the agent's host and verify it",
  operands: "MEDIUM",
  examples: [
    ["media add debian/13 --follow", "an artifact of the index; watch it"],
    ["media add https://host/a.raw.xz --sha256 $HEX --compression xz", "an address, unpacked"],
    ["media add debian/13 --check signature --wait", "only with a signature by a trusted key"],
  ],
  flags: [...MEDIUM_FLAGS, ...FOLLOW_FLAGS],
  notes: MEDIUM_NOTES,
  shared: "agent",
  async run(call) {
    const body = mediumRequestOf(call);
    return await started(call, "/agent/v1/media", body);
  },
};

const VERIFY: Command = {
  summary: "read files again and compare their digests",
  operands: "[DIGEST]",
  examples: [
    ["media verify $DIGEST --wait", "one file"],
    ["media verify --all --wait", "every file, one after another"],
  ],
  flags: [{ name: "all", help: "every known file" }, ...FOLLOW_FLAGS],
  notes: ["A damaged file is removed from the cache; the job fails and says so."],
  shared: "agent",
  async run(call) {
    const [digest] = call.args.operands;
    if ((digest === undefined) !== call.args.has("all")) {
      throw usageError("expected a DIGEST, or --all for every file");
    }
    if (digest !== undefined) {
      return await started(call, `${await fullPath(call.client, digest)}/verify`);
    }
    const sent = await call.client.send({ method: "GET", path: "/agent/v1/media" });
    return await verifyAll(call, sent.body);
  },
};

/** One after another, so that the disk does one sequential read at a time. */
async function verifyAll(call: Invocation, list: unknown): Promise<ExitCode> {
  const { printer } = call;
  const documents: JsonObject[] = [];
  let worst: ExitCode = EXIT.ok;
  for (const file of readObjects(list, "the media")) {
    const { code, answer, job } = await begin(
      call,
      `${pathOf(textIn(file, "digest") ?? "")}/verify`,
    );
    if (code !== EXIT.ok) worst = code;
    documents.push(job?.raw ?? answer);
    if (!printer.json) {
      printer.data(`${textIn(file, "name") ?? "-"}  ${job?.execution ?? "queued"}`);
    }
    if (code === EXIT.interrupted || code === EXIT.timeout) break;
  }
  if (printer.json) printer.document(documents);
  return worst;
}

const LIST: Command = {
  summary: "list the files of the media folders, the uploads and the cache",
  examples: [["media list", "names, sizes, kinds and folders"]],
  flags: [],
  notes: ["KIND follows from the first bytes of a file; ! marks one that no machine boots."],
  shared: "agent",
  run: list,
};

async function list({ client, printer }: Invocation): Promise<CommandEnd> {
  const sent = await client.send({ method: "GET", path: "/agent/v1/media/library" });
  const library = readObject(sent.body, "the library");
  if (printer.json) return printer.document(library);
  printer.table([
    { head: "NAME", flexible: true, cell: textCell("name") },
    { head: "SIZE", right: true, cell: (file) => sizeOrDash(numberIn(file, "size")) },
    {
      head: "KIND",
      cell: (file) => textCell("kind")(file) + (textIn(file, "problem") === undefined ? "" : "!"),
    },
    { head: "WHERE", flexible: true, cell: (file) => textIn(file, "folder") ?? "cache" },
    {
      head: "SHA256",
      cell: (file) => textCell("digest")(file).replace(/^sha256:/, "").slice(0, SHORT_CHARS),
    },
    { head: "CHECK", wide: true, cell: textCell("level") },
    {
      head: "JOBS",
      right: true,
      wide: true,
      cell: ({ used_by }) => String(Array.isArray(used_by) ? used_by.length : 0),
    },
  ], objectsAt(library, "files"));
  for (const folder of objectsAt(library, "folders")) {
    const problem = textIn(folder, "problem");
    if (problem !== undefined) printer.note(`${textIn(folder, "path")}: ${problem}`);
  }
  if (library.truncated === true) printer.note("There are more files than are listed.");
  const cache = isJsonObject(library.cache) ? library.cache : {};
  const max = numberIn(cache, "bytes_max");
  const bound = max === undefined ? "no bound" : `of ${sizeOrDash(max)}`;
  printer.note(`cache: ${sizeOrDash(numberIn(cache, "bytes"))}, ${bound}`);
}

/** Hexadecimal digits of a digest in a table; --json shows all of them. */
const SHORT_CHARS = 16;

const RM: Command = {
  summary: "remove files from the cache or the upload folder",
  operands: "DIGEST|NAME...",
  operandsMax: 1000,
  examples: [
    ["media rm debian-13.iso", "an uploaded file, by its name"],
    ["media rm $DIGEST", "a file not used by an unfinished job"],
  ],
  flags: [],
  notes: ["A file in a media folder of the operator is not removed."],
  shared: "agent",
  async run({ args, client, printer }) {
    const gone: JsonObject[] = [];
    for (const operand of args.operands) {
      const removed = await removeMedium(client, operand).catch((error) => {
        // Notes are for people, but programs must learn what is gone too.
        throw printer.json ? afterRemoving(gone, error) : error;
      });
      if (removed === undefined) continue;
      gone.push(removed);
      const what = textIn(removed, "removed") ?? textIn(removed, "name") ?? operand;
      if (!printer.json) printer.note(`removed ${what}: ${textIn(removed, "path") ?? operand}`);
    }
    if (printer.json && !args.has("curl")) printer.document(gone);
  },
};

/** @returns what is gone; undefined with --curl */
async function removeMedium(
  client: Invocation["client"],
  operand: string,
): Promise<JsonObject | undefined> {
  const named = mediaKind(operand) !== undefined;
  const path = named
    ? `/agent/v1/media/library/${encodeURIComponent(operand)}`
    : await fullPath(client, operand);
  if (client.prints({ method: "DELETE", path })) return undefined;
  const medium = named ? undefined : readObject(await client.get(path), "the medium");
  const sent = await client.send({ method: "DELETE", path });
  return medium ?? readObject(sent.body, "what is gone");
}

function afterRemoving(gone: readonly JsonObject[], error: unknown): unknown {
  if (gone.length === 0 || !(error instanceof AgentError)) return error;
  const names = gone.map((one) => textIn(one, "path") ?? "").join(", ");
  const message = `${error.message}; removed before that: ${names}`;
  return new AgentError(error.code, message, { errors: error.errors, cause: error });
}

/** The path of a file. The digits that a table shows are enough if only one file has them. */
async function fullPath(client: Invocation["client"], digest: string): Promise<string> {
  const hex = digest.replace(/^sha256:/, "").toLowerCase();
  if (hex.length === 64) return pathOf(digest);
  if (!/^[0-9a-f]{8,63}$/.test(hex)) {
    const expected =
      "expected its sha256, 8 digits of it or more, or the name of an uploaded file, " +
      "which ends in .iso, .img or .raw";
    const message = `Cannot find medium ${JSON.stringify(digest)}, ${expected}`;
    throw new AgentError("not_found", message, { about: { kind: "medium" } });
  }
  const files = readObjects(await client.get("/agent/v1/media"), "the media");
  const fitting = files.filter((file) => textIn(file, "digest")?.startsWith(`sha256:${hex}`));
  const [only, ...others] = fitting;
  if (others.length > 0) throw severalDigests(digest, fitting);
  if (only !== undefined) return pathOf(textIn(only, "digest") ?? digest);
  const message = `Cannot find medium ${
    JSON.stringify(digest)
  }: no file has a digest that begins with it`;
  throw new AgentError("not_found", message, { about: { kind: "medium" } });
}

function severalDigests(digest: string, files: readonly JsonObject[]): AgentError {
  const errors = files.slice(0, CANDIDATES_MAX).map((file) => ({
    field: "digest",
    code: "Invalid" as const,
    message: `${textIn(file, "digest")}  ${textIn(file, "name")}, ${
      sizeOrDash(numberIn(file, "size"))
    }`,
  }));
  const message =
    `Cannot choose file ${JSON.stringify(digest)}: ${files.length} digests begin so, ` +
    "expected more digits of one of them";
  return new AgentError("invalid_argument", message, { errors, about: { kind: "medium" } });
}

function pathOf(digest: string): string {
  return `/agent/v1/media/${encodeURIComponent(digest)}`;
}

/** A job about a medium, with its end if the command waited. */
interface Begun {
  readonly code: ExitCode;
  readonly answer: JsonObject;
  readonly job?: JobAnswer;
}

async function begin(call: Invocation, path: string, body?: JsonValue): Promise<Begun> {
  checkTimeout(call);
  const sentBody = body === undefined ? {} : { body };
  const sent = await call.client.send({ method: "POST", path, ...sentBody });
  const answer = readObject(sent.body, "the job");
  if (!stays(call)) return { code: EXIT.ok, answer };
  const job_uuid = textIn(answer, "job_uuid") ?? "";
  return { answer, ...await follow(call, job_uuid) };
}

/** Starts a job about a medium, and waits or follows as the flags say. */
async function started(call: Invocation, path: string, body?: JsonValue): Promise<ExitCode> {
  const { code, answer, job } = await begin(call, path, body);
  const { printer } = call;
  if (job !== undefined) await showMedium(call, job);
  else if (printer.json) printer.document(answer);
  else if (!stays(call)) {
    const job_uuid = textIn(answer, "job_uuid") ?? "";
    printer.data(job_uuid);
    printer.next(`job tail ${job_uuid}`, "watch it");
  }
  return code;
}

async function showMedium({ client, printer }: Invocation, job: JobAnswer): Promise<void> {
  if (printer.json) return printer.document(job.raw);
  const sha256 = textIn(mediumOf(job) ?? {}, "sha256");
  if (sha256 === undefined) return;
  const medium = readObject(await client.get(pathOf(sha256)), "the medium");
  printer.pairs([
    ["digest", textIn(medium, "digest") ?? "-"],
    ["file", textIn(medium, "path") ?? "-"],
    ["size", sizeOrDash(numberIn(medium, "size"))],
    ["check", textIn(medium, "level") ?? "-"],
  ]);
}

function mediumOf({ raw }: JobAnswer): JsonObject | undefined {
  const results = Array.isArray(raw.chain_results) ? raw.chain_results : [];
  const [first] = results.filter((entry) => typeof entry === "object" && entry !== null);
  const result = first !== undefined && !Array.isArray(first) ? (first as JsonObject).result : null;
  return typeof result === "object" && result !== null && !Array.isArray(result)
    ? result
    : undefined;
}

/** The commands about installation media. @see docs/media.md */
export const MEDIA: Noun = {
  kind: "verbs",
  summary: "download, upload, list, verify and remove installation media",
  verbs: { add: ADD, upload: UPLOAD, list: LIST, verify: VERIFY, rm: RM },
};
