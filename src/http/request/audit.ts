// The record of who changed what: one line for every call that may change something, refused or not. It says who
// called what and how it ended, never what was sent. For busy callers the log only counts the lines; the trail has
// each of them. It is a file of JSON lines, readable only by its owner, and reopened when the configuration is
// reloaded, so that logadm and logrotate can move it.

import { METHOD_CHARS_MAX, PATH_CHARS_MAX } from "./request_id.ts";
import { type AccessLines, callKind } from "./access_lines.ts";
import type { MiddlewareHandler } from "hono";
import { joined } from "../../domain/bytes.ts";
import { AgentError, systemReason } from "../../domain/error.ts";
import { jsonLine } from "../../domain/json.ts";
import type { Log } from "../../metrics/log.ts";
import { fileInfo, OTHERS, OWNER_ONLY_MODE } from "../../runtime/regular_file.ts";
import type { Now } from "../../domain/instant.ts";
import { needsAdmin } from "./access.ts";
import type { HttpEnv } from "../served_agent.ts";
import { type AuditEntry, type AuditTrail, callerText, peerText } from "../caller.ts";

const JOB_LOCATION = /^\/jobs\/([0-9a-f-]{36})$/;

interface AuditDependencies {
  readonly log: Log;
  readonly lines: AccessLines;
  readonly now: Now;
  readonly trail?: AuditTrail | undefined;
}

/** Records calls. It comes first, so that it records the final status. */
export function audited({ log, lines, now, trail }: AuditDependencies): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    await next();
    const { method, path } = c.req;
    if (!needsAdmin(method, path, c.req.raw.headers)) return;
    const job_uuid = JOB_LOCATION.exec(c.res.headers.get("location") ?? "")?.[1];
    const caller = { who: callerText(c.get("caller")), peer: peerText(c.env?.remote) };
    const entry = {
      request_id: c.get("request_id"),
      ...caller,
      method: method.slice(0, METHOD_CHARS_MAX),
      path: path.slice(0, PATH_CHARS_MAX),
      status: c.res.status,
      ...(job_uuid === undefined ? {} : { job_uuid }),
    };
    if (lines.audited(caller, callKind(c))) log.info("call audited", { logger: "audit", ...entry });
    await trail?.append({ ts: now(), ...entry });
  };
}

const LINE_END = 0x0a;

/** A trail whose file can be replaced. */
interface AuditFile extends AuditTrail {
  /** Continues in this file, reopened; null for none. @throws {AgentError} `invalid_argument` */
  reopen(path: string | null): Promise<void>;
  /** Writes pending entries, and closes the file. */
  close(): Promise<void>;
}

interface AuditFileOptions {
  readonly log: Log;
  /** Called with the number of entries that were not written. */
  readonly lost: (entries: number) => void;
}

/**
 * Opens no file until reopen() is called. An entry is in the file before its call is answered;
 * concurrent entries share one write.
 */
export function openAuditFile({ log, lost }: AuditFileOptions): AuditFile {
  let file: LineFile | undefined;
  let waiting: string[] = [];
  /** The last task: writes and replacements of the file run one after another. */
  let turn: Promise<unknown> = Promise.resolve();
  let writing: Promise<void> | undefined;
  const after = <T>(run: () => Promise<T>): Promise<T> => {
    const result = turn.then(run);
    turn = result.catch(() => {});
    return result;
  };
  const writeWaiting = async () => {
    writing = undefined;
    const lines = waiting;
    waiting = [];
    if (file === undefined) return;
    const { written, error } = await file.append(lines);
    const count = lines.length - written;
    if (count === 0) return;
    lost(count);
    log.error("audit entries not written", { count, error });
  };
  const exchange = async (path: string | null) => {
    const next = path === null ? undefined : await openLineFile(path);
    file?.close();
    file = next;
  };
  return {
    async append(entry: AuditEntry) {
      if (file === undefined) return;
      waiting.push(`${jsonLine(entry)}\n`);
      await (writing ??= after(writeWaiting));
    },
    reopen: (path) => after(() => exchange(path)),
    close: () => after(() => exchange(null)),
  };
}

/** A file of lines. A line that was cut off by a full disk or a crash stays a line of its own. */
interface LineFile {
  /** @returns how many lines are whole in the file, and why not all are */
  append(lines: readonly string[]): Promise<{ written: number; error?: unknown }>;
  close(): void;
}

async function openLineFile(path: string): Promise<LineFile> {
  const file = await openAppending(path);
  let torn = await endsWithinLine(file);
  return {
    async append(lines) {
      const ends: number[] = [];
      const encoder = new TextEncoder();
      const parts = torn ? [Uint8Array.of(LINE_END)] : [];
      let size = parts.length;
      for (const line of lines) {
        const part = encoder.encode(line);
        parts.push(part);
        ends.push(size += part.length);
      }
      const bytes = joined(parts, size);
      let at = 0;
      try {
        while (at < bytes.length) at += await file.write(bytes.subarray(at));
        torn = false;
        return { written: lines.length };
      } catch (error) {
        if (at > 0) torn = bytes[at - 1] !== LINE_END;
        return { written: ends.filter((end) => end <= at).length, error };
      }
    },
    close: () => file.close(),
  };
}

/** Whether the last line was never finished. */
async function endsWithinLine(file: Deno.FsFile): Promise<boolean> {
  const { size } = await file.stat();
  if (size === 0) return false;
  await file.seek(-1, Deno.SeekMode.End);
  const last = new Uint8Array(1);
  return await file.read(last) === 1 && last[0] !== LINE_END;
}

async function openAppending(path: string): Promise<Deno.FsFile> {
  try {
    const found = await fileInfo(path);
    if (found?.isFile === false) throw new Error("it is not a regular file");
    const options = { read: true, append: true, create: true, mode: OWNER_ONLY_MODE };
    const file = await Deno.open(path, options);
    if (((found?.mode ?? OWNER_ONLY_MODE) & OTHERS) !== 0) await Deno.chmod(path, OWNER_ONLY_MODE);
    return file;
  } catch (error) {
    const message =
      `Cannot write the audit file ${path}: ${systemReason(error)}, expected a file ` +
      "that the agent may write; --audit-file names another";
    throw new AgentError("invalid_argument", message, { cause: error });
  }
}
