// One session of the sftp subsystem: requests go out numbered, answers come back in any order. When
// the session ends, for whatever reason, every request that waits fails with that reason.

import { AgentError } from "../../domain/error.ts";
import { killGroup } from "../program.ts";
import { type Field, type Fields, fieldsOf, PACKET, packet } from "./packet.ts";

/** Longest answer that is taken; those to our requests are far shorter, bytes. */
const ANSWER_BYTES_MAX = 256 * 1024;

/** How long the server may be silent while requests wait; a sync of gigabytes takes its time. */
const SILENCE_MS_MAX = 120_000;

const PROTOCOL_VERSION = 3;

/** One answer. */
export interface Answer {
  readonly kind: number;
  readonly fields: Fields;
}

/** A session that is open. */
export interface RemoteSession {
  /** Names of the extensions that the server offers. */
  readonly extensions: ReadonlySet<string>;
  /** Whether it has ended; requests fail from then on. */
  readonly ended: boolean;
  /**
   * Sends a request; its number comes before the fields.
   * @returns when it was handed on, with its answer still to come
   */
  send(kind: number, fields: readonly Field[]): Promise<{ readonly answer: Promise<Answer> }>;
  close(): Promise<void>;
}

/**
 * Opens a session with a server that listens on the standard input of a process.
 * @param failure makes the error for a session that ended, from what the process said
 * @throws {AgentError} what `failure` makes, when the session ends before it is open
 */
export async function openRemoteSession(
  child: Deno.ChildProcess,
  failure: (words: string) => AgentError,
): Promise<RemoteSession> {
  const waiting = new Map<number, PromiseWithResolvers<Answer>>();
  const writer = child.stdin.getWriter();
  const hello = Promise.withResolvers<Answer>();
  const silence = watchSilence(() => end("it gave no answer for too long"));
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
      const answer = Promise.withResolvers<Answer>();
      // Whoever has handed on a request may come back for its answer much later.
      answer.promise.catch(() => {});
      last = (last + 1) % 2 ** 32;
      waiting.set(last, answer);
      silence.asked();
      // What went wrong is known when the session ends, and told to all who wait.
      await writer.write(packet(kind, [last, ...fields])).catch(() => {});
      return { answer: answer.promise };
    },
    async close() {
      end("the agent closed it");
      await Promise.all([child.status, reading.catch(() => {}), words]);
    },
  };
}

function namesOf(fields: Fields): ReadonlySet<string> {
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

/** Reads packets to the end of the stream. @throws {AgentError} `host` for what is none */
async function readAnswers(
  stream: ReadableStream<Uint8Array>,
  take: (kind: number, fields: Fields) => void,
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
        throw new AgentError("host", `an answer of ${size} bytes came, which is none of sftp`);
      }
      if (bytes.length - at < 4 + size) break;
      take(bytes[at + 4] ?? 0, fieldsOf(bytes.subarray(at + 5, at + 4 + size)));
      at += 4 + size;
    }
    held = bytes.slice(at);
  }
}

/** Watches that something is heard while something is asked. */
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
