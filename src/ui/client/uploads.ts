// Uploads into the agent's upload folder. They continue while other pages are shown, and after a broken connection:
// the agent reports the offset of the next byte. One file is sent at a time. The browser remembers the files of
// unfinished uploads, so that two files are never mixed.

import { type Signal, signal } from "@preact/signals";
import { forgeryHeaders, NOT_FOUND, pause, refusal, send, statusOf, wordsOf } from "./client.ts";
import type { Schemas } from "./schema.ts";
import { announce } from "../browser.ts";

/** What a media folder or the cache holds. */
export type LibraryFile = Schemas["LibraryFile"];

/** The state of an upload. Sizes in bytes. */
type UploadState =
  | { readonly kind: "queued" }
  /** `bytesPerSecond` is since the last cut; 0 when it is not known yet. */
  | { readonly kind: "sending"; readonly sent: number; readonly bytesPerSecond: number }
  /** All bytes are sent; the agent computes the digest. */
  | { readonly kind: "checking" }
  /** The connection broke; the upload continues by itself. */
  | { readonly kind: "cut"; readonly sent: number; readonly why: string }
  | { readonly kind: "done"; readonly file: LibraryFile }
  | { readonly kind: "failed"; readonly why: string }
  | { readonly kind: "canceled" };

/** A file that is uploaded. */
export interface Upload {
  /** Its name in the upload folder. */
  readonly name: string;
  /** Size of the whole file, bytes. */
  readonly total: number;
  readonly state: Signal<UploadState>;
  /** Cancels it, and removes the bytes from the agent. */
  cancel(): void;
}

/** All uploads since the page was opened, oldest first. */
export const uploads = signal<readonly Upload[]>([]);

/** Endings of files that a machine boots. */
export const BOOT_ENDINGS = [".iso", ".img", ".raw"] as const;
const NAME_CHARS_MAX = 128;

const PAUSE_FIRST_MS = 500;
const PAUSE_MAX_MS = 10_000;
/** Attempts in a row that the agent may refuse, since it may still be reading the previous one. */
const REFUSALS_MAX = 8;
/** Milliseconds until the agent notices that an upload was canceled. */
const NOTICED_MS = 300;
const CONFLICT = 409;

/** The path of a library file. */
export function libraryPath(name: string): string {
  return `/agent/v1/media/library/${encodeURIComponent(name)}`;
}

/** Whether an upload is in progress. */
export function isUnderWay({ state: { value: { kind } } }: Upload): boolean {
  return kind !== "done" && kind !== "failed" && kind !== "canceled";
}

/** The name of a file in the upload folder: characters that it cannot have become dashes. */
export function uploadName({ name }: Pick<File, "name">): string {
  return name.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "").slice(
    -NAME_CHARS_MAX,
  );
}

/** Why a file cannot be uploaded; undefined when it can. */
export function uploadProblem(file: File): string | undefined {
  const name = uploadName(file).toLowerCase();
  if (file.size === 0) return `${file.name} is empty`;
  if (BOOT_ENDINGS.some((ending) => name.endsWith(ending) && name !== ending)) return undefined;
  return `${file.name} cannot be booted, expected a name that ends in .iso, .img or .raw`;
}

/** Removes finished uploads from the list. */
export function clearUploads(): void {
  uploads.value = uploads.value.filter(isUnderWay);
}

let turn: Promise<void> = Promise.resolve();

/** Uploads a file after those before it. @param replace whether it takes the place of an uploaded file */
export function startUpload(file: File, replace: boolean): Upload {
  const name = uploadName(file);
  const state = signal<UploadState>({ kind: "queued" });
  const ending = new AbortController();
  const upload: Upload = {
    name,
    total: file.size,
    state,
    cancel() {
      if (!isUnderWay(upload)) return;
      const begun = state.value.kind !== "queued";
      state.value = { kind: "canceled" };
      ending.abort();
      announce(`Upload of ${name} canceled`);
      forgetOwn(name);
      if (begun) void removeUnfinished(name);
    },
  };
  // Drops a finished upload of the same name.
  uploads.value = [
    ...uploads.value.filter((one) => one.name !== name || isUnderWay(one)),
    upload,
  ];
  turn = turn.then(async () => {
    if (!ending.signal.aborted) await run({ file, name, replace, state, signal: ending.signal });
  });
  return upload;
}

/** Asks before the page is closed during an upload. */
addEventListener("beforeunload", (event) => {
  if (uploads.value.some(isUnderWay)) event.preventDefault();
});

interface Sending {
  readonly file: File;
  readonly name: string;
  readonly replace: boolean;
  readonly state: Signal<UploadState>;
  readonly signal: AbortSignal;
}

async function run(sending: Sending): Promise<void> {
  const { file, name, state, signal } = sending;
  let end: UploadState;
  try {
    end = { kind: "done", file: await arrived(sending) };
    announce(`${name} is uploaded`);
  } catch (error) {
    end = { kind: "failed", why: wordsOf(error) };
    if (!signal.aborted) announce(`Upload of ${name} failed: ${end.why}`);
  }
  if (signal.aborted) return;
  // After a failure the agent may still have the bytes: the same file can continue there.
  if (end.kind === "done") forgetOwn(name);
  else noteOwn(name, file);
  state.value = end;
}

/** Sends the missing bytes, with retries. @throws {CallError} when the agent refuses the file */
async function arrived(sending: Sending): Promise<LibraryFile> {
  const { file, name, state, signal } = sending;
  let offset = isOwn(name, file) ? await standing(sending) : 0;
  noteOwn(name, file);
  let pauseMs = PAUSE_FIRST_MS;
  let refusals = 0;
  // Ends with an answer, or when the user cancels.
  for (let tries = 0; !signal.aborted; tries++) {
    if (offset === undefined) return await readFile(name);
    const answer = await put(sending, offset, tries > 0 || offset > 0);
    if (answer.kind === "arrived") return answer.file;
    if (signal.aborted) break;
    if (answer.kind === "refused") {
      refusals += 1;
      if (!answer.again || refusals > REFUSALS_MAX) throw answer.error;
    }
    const why = answer.kind === "cut" ? "The connection was cut" : wordsOf(answer.error);
    state.value = { kind: "cut", sent: offset, why };
    await pause(pauseMs, signal);
    const before = offset;
    offset = await standing(sending).catch(() => before);
    const further = offset === undefined || offset > before;
    pauseMs = further ? PAUSE_FIRST_MS : Math.min(pauseMs * 2, PAUSE_MAX_MS);
    if (further) refusals = 0;
  }
  throw new Error("It was canceled");
}

/** The offset of the next byte; undefined when the whole file has arrived. */
async function standing({ name, file, replace, signal }: Sending): Promise<number | undefined> {
  const answer = await fetch(libraryPath(name), { method: "HEAD", signal });
  if (answer.status === NOT_FOUND) return 0;
  if (!answer.ok) throw refusal(answer.status, undefined);
  const offset = Number(answer.headers.get("upload-offset"));
  if (answer.headers.get("upload-complete") !== "?1") return Math.min(offset, file.size);
  // If another file has the name, the agent refuses when it is sent.
  return offset === file.size && !replace ? undefined : 0;
}

async function readFile(name: string): Promise<LibraryFile> {
  // The agent has just reported that the file is complete.
  return await send({ method: "GET", path: libraryPath(name) }) as LibraryFile;
}

type PutAnswer =
  | { readonly kind: "arrived"; readonly file: LibraryFile }
  | { readonly kind: "cut" }
  | { readonly kind: "refused"; readonly error: Error; readonly again: boolean };

/**
 * Sends the file from an offset on. Only an XMLHttpRequest reports upload progress.
 * @param continues whether an earlier request may have sent a part
 */
function put(
  { file, name, replace, state, signal }: Sending,
  from: number,
  continues: boolean,
): Promise<PutAnswer> {
  const { promise, resolve } = Promise.withResolvers<PutAnswer>();
  const request = new XMLHttpRequest();
  const total = file.size;
  const begunMs = performance.now();
  const isSent = (sent: number) => {
    const seconds = (performance.now() - begunMs) / 1000;
    const bytesPerSecond = seconds < 1 ? 0 : (sent - from) / seconds;
    state.value = sent >= total ? { kind: "checking" } : { kind: "sending", sent, bytesPerSecond };
  };
  request.upload.addEventListener("progress", ({ loaded }) => {
    if (!signal.aborted) isSent(Math.min(from + loaded, total));
  });
  request.addEventListener("load", () => resolve(answerOf(request, continues)));
  for (const name of ["error", "abort", "timeout"] as const) {
    request.addEventListener(name, () => resolve({ kind: "cut" }));
  }
  signal.addEventListener("abort", () => request.abort(), { once: true });
  request.open("PUT", libraryPath(name) + (replace ? "?replace=true" : ""));
  request.setRequestHeader("content-type", "application/octet-stream");
  for (const [header, value] of forgeryHeaders()) request.setRequestHeader(header, value);
  if (from > 0) {
    const part = from === total ? "*" : `${from}-${total - 1}`;
    request.setRequestHeader("content-range", `bytes ${part}/${total}`);
  }
  isSent(from);
  request.send(from === 0 ? file : file.slice(from));
  return promise;
}

function answerOf(request: XMLHttpRequest, continues: boolean): PutAnswer {
  const { status, responseText } = request;
  let body: unknown;
  try {
    body = JSON.parse(responseText);
  } catch {
    // A proxy may answer in its own format: then the status decides.
  }
  if (status === 200 || status === 201) return { kind: "arrived", file: body as LibraryFile };
  if (status === 202) return { kind: "cut" };
  // The body broke off or was too slow, there are too many uploads, or the offset is no longer right.
  const again = status === 400 || status === 408 || status === 503 ||
    (status === CONFLICT && continues);
  return { kind: "refused", error: refusal(status, body), again };
}

/** Removes the bytes of an upload, once the agent has noticed that it was canceled. */
async function removeUnfinished(name: string): Promise<void> {
  for (let tries = 1; tries <= REFUSALS_MAX; tries++) {
    await pause(NOTICED_MS * tries, new AbortController().signal);
    try {
      await send({ method: "DELETE", path: `${libraryPath(name)}?unfinished=true` });
      return;
    } catch (error) {
      if (statusOf(error) !== CONFLICT) return;
    }
  }
}

function keyOf(name: string): string {
  return `upload ${name}`;
}

function isOwn(name: string, { size, lastModified }: File): boolean {
  return localStorage.getItem(keyOf(name)) === `${size} ${lastModified}`;
}

function noteOwn(name: string, { size, lastModified }: File): void {
  localStorage.setItem(keyOf(name), `${size} ${lastModified}`);
}

function forgetOwn(name: string): void {
  localStorage.removeItem(keyOf(name));
}
