// `zonewright media upload`: uploads a file of this computer into the agent's upload folder. Its digest is
// computed first, and the agent compares it. An interrupted upload resumes where it stopped, automatically or
// when the command is run again.

import { basename, resolve } from "@std/path";
import { AgentError, systemCode, systemReason } from "../../domain/error.ts";
import { DAY_SECONDS, MS_PER_SECOND } from "../../domain/instant.ts";
import type { JsonObject } from "../../domain/json.ts";
import { parseMediaName } from "../../domain/machine/media.ts";
import { pause } from "../../runtime/wait.ts";
import type { ApiAnswer, ApiCall } from "../client/api_call.ts";
import { answerError, readObject, textIn } from "../client/answer.ts";
import { cannot } from "../command/arguments.ts";
import { type Command, type CommandEnd, EXIT, type Invocation } from "../command/command.ts";
import { typedDigest } from "../command/typed_value.ts";
import { sizeOrDash } from "../output/table.ts";
import { bar, canMove, CLEAR_LINE, type Terminal } from "../output/terminal.ts";

const READ_BYTES = 256 * 1024;
/** Attempts in a row without progress. */
const TRIES_MAX = 5;
/** Seconds before the first retry; each further retry waits that much longer. */
const PAUSE_SECONDS = 1;
/** Milliseconds between two updates of the progress line. */
const PROGRESS_MS = 200;
/** Milliseconds for one request; the agent ends one that stalls much earlier. */
const REQUEST_MS_MAX = DAY_SECONDS * MS_PER_SECOND;

interface LocalFile {
  readonly path: string;
  readonly name: string;
  readonly size: number;
  readonly sha256: string;
}

/** `zonewright media upload FILE`: PUT /agent/v1/media/library/NAME; an upload that was cut off is continued. */
export const UPLOAD: Command = {
  summary: "upload a file to the agent's upload folder",
  operands: "FILE",
  examples: [
    ["media upload debian-13.iso", "then: machine create --iso debian-13.iso"],
    ["media upload ./d.img --name system.img", "under another name"],
    ["media upload debian-13.iso --replace", "in place of the file of that name"],
  ],
  flags: [
    { name: "name", placeholder: "NAME", help: "its name there; that of the file unless given" },
    { name: "replace", help: "take the place of an uploaded file that no job uses" },
    {
      name: "sha256",
      placeholder: "HEX",
      help: "expected digest; computed from the file unless given",
    },
  ],
  notes: [
    "An interrupted upload resumes where it stopped, even when the command is run again within a day.",
  ],
  shared: "agent",
  run: upload,
};

async function upload(call: Invocation): Promise<CommandEnd> {
  const { args, client, printer, terminal } = call;
  const path = resolve(terminal.cwd, args.operand);
  const name = parseMediaName(args.text("name") ?? basename(path), "name");
  const size = await sizeOf(path);
  const query = args.has("replace") ? "?replace=true" : "";
  const target = `/agent/v1/media/library/${encodeURIComponent(name)}`;
  const given = typedDigest(args)?.replace("sha256:", "");
  const headers = given === undefined ? {} : digestHeader(given);
  if (client.prints({ method: "PUT", path: target + query, file: path, headers })) return EXIT.ok;
  const sha256 = given ??
    await sha256Of(path, progressOf(terminal, "reading", size)).catch((error) => {
      throw systemCode(error) === undefined
        ? error
        : cannot(`read ${path}: ${systemReason(error)}`);
    });
  const file = { path, name, size, sha256 };
  const standing = await standingOf(call, target, file);
  if (standing.kind === "there" && query === "") {
    if (standing.digest !== `sha256:${sha256}`) {
      throw new AgentError("conflict", `Cannot upload ${name}: ${takenBy(standing)}`);
    }
    printer.note(`${name} already exists`);
    return show(call, standing.file);
  }
  const answer = await sendAll(call, target, query, file, standing);
  return show(call, readObject(answer.body, "the file"));
}

/** The error for a name that is taken: by which file, and what to do about it. */
function takenBy({ digest, file }: Extract<UploadStanding, { kind: "there" }>): string {
  if (textIn(file, "place") === "folder") {
    return `the operator's own file in ${textIn(file, "folder")} has this name; pass --name for ` +
      "another name";
  }
  const found = digest === ""
    ? "a file of this name, whose digest it does not know"
    : "another file of this name";
  return `the agent has ${found}; pass --replace to take its place, or --name for another name`;
}

function show({ printer }: Invocation, file: JsonObject): void {
  if (printer.json) return printer.document(file);
  const problem = textIn(file, "problem");
  printer.pairs([
    ["file", textIn(file, "path") ?? "-"],
    ["digest", textIn(file, "digest") ?? "-"],
    ["kind", textIn(file, "kind") ?? "-"],
  ]);
  if (problem !== undefined) printer.note(`No machine boots it: ${problem}`);
  if (problem === undefined) {
    const name = textIn(file, "name") ?? "";
    printer.next(`machine create -f vm.json --iso ${name} --follow`, "boot a machine from it");
  }
}

async function sizeOf(path: string): Promise<number> {
  let info: Deno.FileInfo;
  try {
    info = await Deno.stat(path);
  } catch (error) {
    const missing = error instanceof Deno.errors.NotFound;
    const message = `Cannot read ${path}: ${missing ? "it does not exist" : systemReason(error)}`;
    throw new AgentError(missing ? "not_found" : "invalid_argument", message, {
      cause: error,
      about: { kind: "file", name: path },
    });
  }
  if (info.isFile && info.size > 0) return info.size;
  const found = info.isFile ? "empty" : "not a regular file";
  throw cannot(`upload ${path}: it is ${found}, expected a medium`);
}

/** The progress of an upload, as the agent reports it. */
type UploadStanding =
  | { readonly kind: "none" }
  | { readonly kind: "unfinished"; readonly offset: number; readonly ours: boolean }
  | { readonly kind: "there"; readonly digest: string; readonly file: JsonObject };

async function standingOf(
  { client }: Pick<Invocation, "client">,
  path: string,
  { size, sha256 }: LocalFile,
): Promise<UploadStanding> {
  const call: ApiCall = { method: "GET", path };
  const answer = await client.exchange(call);
  if (answer.status === 404) return { kind: "none" };
  if (answer.status !== 200) throw answerError(call, answer);
  const body = readObject(answer.body, "the upload");
  if (answer.headers.get("upload-complete") !== "?0") {
    return { kind: "there", digest: textIn(body, "digest") ?? "", file: body };
  }
  const digests = Array.isArray(body.digests) ? body.digests : [];
  const ours = body.total === size &&
    digests.every((one) => !String(one).startsWith("sha256:") || one === `sha256:${sha256}`);
  return { kind: "unfinished", offset: Number(answer.headers.get("upload-offset")), ours };
}

/** Sends the missing bytes, retrying as long as attempts make progress. */
async function sendAll(
  call: Invocation,
  path: string,
  query: string,
  file: LocalFile,
  found: UploadStanding,
): Promise<ApiAnswer> {
  const { printer } = call;
  let standing = found;
  let furthest = -1;
  let tries = 0;
  // Ends with an answer, or with the error of the last attempt.
  for (;;) {
    let offset = standing.kind === "unfinished" ? standing.offset : 0;
    if (standing.kind === "unfinished" && !standing.ours) {
      printer.note(`the unfinished upload of ${file.name} was of another file: starting again`);
      await forget(call, `${path}?unfinished=true`);
      offset = 0;
    } else if (offset > 0) {
      printer.note(`${sizeOrDash(offset)} of ${sizeOrDash(file.size)} already uploaded: resuming`);
    }
    tries = offset > furthest ? 1 : tries + 1;
    furthest = Math.max(furthest, offset);
    const tried = await sendFrom(call, path + query, file, offset);
    if (tried.kind === "answered") return tried.answer;
    if (tries >= TRIES_MAX || !tried.passing) throw tried.error;
    printer.note(`${tried.error.message}; trying again`);
    await pause(tries * PAUSE_SECONDS * 1000, new AbortController().signal);
    standing = await standingOf(call, path, file).catch((error: unknown): UploadStanding => {
      if (error instanceof AgentError && error.code === "unreachable") return standing;
      throw error;
    });
    if (standing.kind === "there" && standing.digest === `sha256:${file.sha256}`) {
      return { status: 200, headers: new Headers(), text: "", body: standing.file };
    }
  }
}

/** Removes an unfinished upload. @throws {AgentError} `conflict` while another request writes it */
async function forget({ client }: Invocation, path: string): Promise<void> {
  const call: ApiCall = { method: "DELETE", path };
  const answer = await client.exchange(call);
  if (answer.status >= 300 && answer.status !== 404) throw answerError(call, answer);
}

type Tried =
  | { readonly kind: "answered"; readonly answer: ApiAnswer }
  | { readonly kind: "failed"; readonly error: AgentError; readonly passing: boolean };

async function sendFrom(
  { client, terminal }: Invocation,
  path: string,
  { path: from, size, sha256 }: LocalFile,
  offset: number,
): Promise<Tried> {
  const call = (range: string): ApiCall => ({
    method: "PUT",
    path,
    headers: { ...digestHeader(sha256), "content-range": `bytes ${range}/${size}` },
    deadlineMs: REQUEST_MS_MAX,
  });
  // Asked without a byte first: while a body is being sent, a refusal breaks the connection, and its reason is
  // lost. Bytes that have all arrived are complete with this call.
  const asking = { ...call("*"), stream: new Blob().stream() };
  try {
    const asked = await client.exchange(asking);
    if (asked.headers.get("upload-offset") !== String(offset)) return triedOf(asking, asked);
    const stream = partsOf(from, offset, progressOf(terminal, "uploading", size));
    const sending = { ...call(`${offset}-${size - 1}`), stream };
    const answer = await client.exchange(sending);
    return triedOf(sending, answer);
  } catch (error) {
    if (!(error instanceof AgentError) || error.code !== "unreachable") throw error;
    return { kind: "failed", error, passing: true };
  } finally {
    clearProgress(terminal);
  }
}

function triedOf(call: ApiCall, answer: ApiAnswer): Tried {
  if (answer.status < 300) return { kind: "answered", answer };
  // The offset is wrong, or the agent has not given up on an earlier request yet.
  const passing = answer.headers.has("upload-offset") || answer.headers.has("retry-after");
  return { kind: "failed", error: answerError(call, answer), passing };
}

function digestHeader(sha256: string): Record<string, string> {
  const bytes = (sha256.match(/../g) ?? []).map((hex) => String.fromCharCode(parseInt(hex, 16)));
  return { "repr-digest": `sha-256=:${btoa(bytes.join(""))}:` };
}

/** The bytes of a file from an offset on, read on demand. */
function partsOf(
  path: string,
  offset: number,
  onProgress: (done: number) => void,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let file: Deno.FsFile | undefined;
  let done = offset;
  return new ReadableStream({
    async pull(controller) {
      if (file === undefined) {
        file = await Deno.open(path, { read: true });
        await file.seek(offset, Deno.SeekMode.Start);
      }
      const buffer = new Uint8Array(READ_BYTES);
      const count = await file.read(buffer);
      if (count === null) {
        file.close();
        return controller.close();
      }
      done += count;
      onProgress(done);
      controller.enqueue(buffer.subarray(0, count));
    },
    cancel: () => file?.close(),
  }, { highWaterMark: 0 });
}

async function sha256Of(path: string, onProgress: (done: number) => void): Promise<string> {
  const { createHash } = await import("node:crypto");
  const hash = createHash("sha256");
  for await (const part of partsOf(path, 0, onProgress)) hash.update(part);
  return hash.digest("hex");
}

/** Draws a progress line on a terminal; a pipe gets none. */
function progressOf(terminal: Terminal, doing: string, total: number): (done: number) => void {
  if (!canMove(terminal)) return () => {};
  let drawnMs = Number.NEGATIVE_INFINITY;
  return (done) => {
    if (done < total && terminal.nowMs() - drawnMs < PROGRESS_MS) return;
    drawnMs = terminal.nowMs();
    const share = `${bar(done / total)} ${Math.floor(100 * done / total)} %`;
    terminal.err(`${CLEAR_LINE}${doing} ${share} of ${sizeOrDash(total)}`);
    if (done >= total) clearProgress(terminal);
  };
}

function clearProgress(terminal: Terminal): void {
  if (canMove(terminal)) terminal.err(CLEAR_LINE);
}
