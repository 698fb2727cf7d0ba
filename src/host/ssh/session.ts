// One session of the sftp subsystem, with OpenSSH's extensions: requests are numbered, answers come in any order. When the
// session ends, all pending requests fail with the reason.
// @see draft-ietf-secsh-filexfer-02, and the file PROTOCOL of OpenSSH

import { AgentError } from "../../domain/error.ts";
import { killGroup } from "../program.ts";
import { type Field, fieldsOf, PACKET, packet, type PacketFields } from "./packet.ts";

/** Most bytes of one answer; those to our requests are far shorter. */
const ANSWER_BYTES_MAX = 256 * 1024;

/**
 * How long the server may be silent while requests are pending, milliseconds; a sync of gigabytes is slow.
 */
const SILENCE_MS_MAX = 120_000;

const PROTOCOL_VERSION = 3;

/** The answer to one request: the type of its packet, and a reader of its fields. */
export interface SftpAnswer {
  readonly kind: number;
  readonly fields: PacketFields;
}

/** An open session. Requests may overlap; each answer finds its request by number. */
export interface RemoteSession {
  /** Names of the extensions that the server offers. */
  readonly extensions: ReadonlySet<string>;
  /** Whether it has ended; further requests fail. */
  readonly ended: boolean;
  /**
   * Sends a request; its number is put before the fields.
   * @returns once sent, with its answer pending
   */
  send(kind: number, fields: readonly Field[]): Promise<{ readonly answer: Promise<SftpAnswer> }>;
  close(): Promise<void>;
}

/**
 * Opens a session with a server on the standard streams of a process.
 * @param failure makes the error of a session that ended from what the process printed
 * @throws {AgentError} the error of `failure` when the session ends before it is open
 */
export async function openRemoteSession(
  child: Deno.ChildProcess,
  failure: (words: string) => AgentError,
): Promise<RemoteSession> {
  const waiting = new Map<number, PromiseWithResolvers<SftpAnswer>>();
  const writer = child.stdin.getWriter();
  const hello = Promise.withResolvers<SftpAnswer>();
  const silence = watchSilence(() => end("it did not answer in time"));
  let error: AgentError | undefined;
  let last = 0;
  const end = (words: string) => {
    if (error !== undefined) return;
    error = failure(words);
    silence.stop();
    killGroup(child);
    hello.reject(error);
    for (const { reject } of waiting.values()) reject(error);
    waiting.clear();
    writer.close().catch(() => {});
  };
  const reading = readAnswers(child.stdout, (kind, fields) => {
    if (kind === PACKET.version) return hello.resolve({ kind, fields });
    const number = fields.u32();
    waiting.get(number)?.resolve({ kind, fields });
    waiting.delete(number);
    silence.heard(waiting.size);
  });
  const words = new Response(child.stderr).text();
  reading.then(
    async () => end(await words || "the sftp server ended"),
    (cause: Error) => end(cause.message),
  );
  silence.asked();
  await writer.write(packet(PACKET.init, [PROTOCOL_VERSION])).catch(() => {});
  const extensions = namesOf((await hello.promise).fields);
  silence.heard(0);
  return {
    extensions,
    get ended() {
      return error !== undefined;
    },
    async send(kind, fields) {
      if (error !== undefined) throw error;
      const answer = Promise.withResolvers<SftpAnswer>();
      // A caller may await the answer long after sending the request.
      answer.promise.catch(() => {});
      last = (last + 1) % 2 ** 32;
      waiting.set(last, answer);
      silence.asked();
      // The reason is known once the session ends; all pending requests then fail with it.
      await writer.write(packet(kind, [last, ...fields])).catch(() => {});
      return { answer: answer.promise };
    },
    async close() {
      end("the agent closed it");
      await Promise.all([child.status, reading.catch(() => {}), words]);
    },
  };
}

function namesOf(fields: PacketFields): ReadonlySet<string> {
  const version = fields.u32();
  if (version !== PROTOCOL_VERSION) {
    const message = `Cannot speak with the sftp server: its version is ${version}, expected 3`;
    throw new AgentError("host", message);
  }
  const names = new Set<string>();
  while (!fields.done) {
    names.add(fields.text());
    fields.text(); // its version
  }
  return names;
}

/** Reads packets to the end of the stream. @throws {AgentError} `host` for a malformed one */
async function readAnswers(
  stream: ReadableStream<Uint8Array>,
  take: (kind: number, fields: PacketFields) => void,
): Promise<void> {
  let held = new Uint8Array();
  for await (const part of stream) {
    const bytes = new Uint8Array(held.length + part.length);
    bytes.set(held);
    bytes.set(part, held.length);
    let at = 0;
    while (bytes.length - at >= 5) {
      const size = new DataView(bytes.buffer).getUint32(at);
      if (size < 1 || size > ANSWER_BYTES_MAX) {
        throw new AgentError("host", `received an answer of ${size} bytes, which is not sftp`);
      }
      if (bytes.length - at < 4 + size) break;
      take(bytes[at + 4] ?? 0, fieldsOf(bytes.subarray(at + 5, at + 4 + size)));
      at += 4 + size;
    }
    held = bytes.slice(at);
  }
}

/** Ends a session whose server is silent while requests are pending. */
function watchSilence(tooLong: () => void) {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const stop = () => {
    clearTimeout(timer);
    timer = undefined;
  };
  return {
    asked: () => timer ??= setTimeout(tooLong, SILENCE_MS_MAX),
    heard: (left: number) => {
      stop();
      if (left > 0) timer = setTimeout(tooLong, SILENCE_MS_MAX);
    },
    stop,
  };
}
