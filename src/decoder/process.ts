// The agent's side of one decoder: its process, its pipes, and why it ended.

import { messageOf } from "../domain/error.ts";
import type { Log } from "../metrics/log.ts";
import type { WalledCommand } from "../sandbox/guest_command.ts";
import { wallProblem } from "../sandbox/wall_checks.ts";
import { GUEST_PERMISSIONS, type GuestCheck } from "../wall/protocol.ts";
import {
  EXIT_WAIT_MS,
  exitWords,
  killProcess,
  OUTPUT_WORDS,
  type ProcessEnd,
  ProcessOutput,
  spawnWalled,
  START_DEADLINE_MS,
  takeRest,
} from "../sandbox/walled_process.ts";
import {
  type DecoderFrame,
  FRAME,
  parseReady,
  PART_BYTES_MAX,
  readFrames,
  READY_BYTES_MAX,
} from "./decoder_message.ts";

/** Thrown by a decoder that has ended: `end` finishes the sentence "its process ...". */
export class DecoderLost extends Error {
  override readonly name = "DecoderLost";
  readonly end: ProcessEnd;

  constructor(end: ProcessEnd) {
    super(`Cannot continue: the decoder ${end.words}`);
    this.end = end;
  }
}

/** A running decoder, opened by starting its process and closed by `kill()`. */
export class DecoderProcess {
  readonly pid: number;
  /** What it has tried of its permissions, once it may be given work; rejects with DecoderLost. */
  readonly ready: Promise<readonly GuestCheck[]>;
  /** Resolves when the process has been reaped and its output read to the end. */
  readonly reaped: Promise<void>;
  /** Pieces of work so far. */
  runs = 0;
  /** Limit of the awaited answer, bytes. */
  answerBytesMax = 0;

  readonly #command: WalledCommand;
  readonly #child: Deno.ChildProcess;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #frames: AsyncGenerator<DecoderFrame>;
  readonly #gone = Promise.withResolvers<never>();
  readonly #onGone: () => void;
  #ended: ProcessEnd | undefined;
  #silence: ReturnType<typeof setTimeout> | undefined;

  /** Memory limit, MiB. */
  readonly memoryMib: number;

  /** @param gone called once, when it can take no more work */
  constructor(command: WalledCommand, log: Log, gone: () => void) {
    this.#onGone = gone;
    this.memoryMib = command.memoryMib;
    this.#command = command;
    // Errors show the end of its output.
    this.#child = spawnWalled({ ...command, env: { NO_COLOR: "1", ...command.env } });
    this.pid = this.#child.pid;
    this.#writer = this.#child.stdin.getWriter();
    this.#frames = readFrames(this.#child.stdout, (kind) => this.#bytesMax(kind));
    this.#gone.promise.catch(() => {});
    const said = new ProcessOutput(
      log.with({ decoder_pid: this.pid }),
      () => this.kill(OUTPUT_WORDS),
    );
    this.reaped = Promise.all([this.#child.status, said.take(this.#child.stderr)])
      .then(([status]) => this.#end(exitWords(status, said.tail, command.memoryMib)));
    this.ready = this.#start();
    this.ready.catch(() => {});
  }

  /** Whether it may be given work. */
  get alive(): boolean {
    return this.#ended === undefined;
  }

  /** Writes one frame; resolves when the pipe has taken it. @throws {DecoderLost} */
  async send(frame: Uint8Array): Promise<void> {
    try {
      await this.#writer.write(frame);
    } catch {
      // A pipe breaks when the process ends, whose status says more.
      await this.#gone.promise;
    }
  }

  /** The next frame. @throws {DecoderLost} also for a forbidden frame, which kills the decoder */
  async next(): Promise<DecoderFrame> {
    try {
      const { value, done } = await this.#frames.next();
      if (done !== true) return value;
      // The process has usually just died: its exit status says more than the end of its output.
      if (this.alive) {
        this.#silence = setTimeout(() => this.kill("closed its output"), EXIT_WAIT_MS);
      }
    } catch (error) {
      this.kill(`broke the protocol: ${messageOf(error)}`);
    }
    return await this.#gone.promise;
  }

  /** Ends the process at once; `why` finishes the sentence "its process ...". */
  kill(why: string, outOfMemory = false): void {
    this.#end({ words: why, outOfMemory });
    killProcess(this.#child);
  }

  #end(end: ProcessEnd): void {
    if (this.#ended !== undefined) return;
    this.#ended = end;
    clearTimeout(this.#silence);
    this.#onGone();
    this.#gone.reject(new DecoderLost(end));
    // Closes both pipes at this end, even if something waits on them.
    this.#writer.abort().catch(() => {});
    this.#frames.return(undefined).catch(() => {});
  }

  async #start(): Promise<readonly GuestCheck[]> {
    const late = setTimeout(
      () => this.kill(`was not ready after ${START_DEADLINE_MS} ms`),
      START_DEADLINE_MS,
    );
    try {
      const frame = await this.next();
      const checks = frame.kind === FRAME.ready ? parseReady(frame) : [];
      const { cannotRefuse } = this.#command;
      const problem = wallProblem(checks, cannotRefuse, GUEST_PERMISSIONS) ??
        await takeRest(this.#command, this.pid);
      if (problem !== undefined) this.kill(`is not closed: ${problem}`);
      else if (this.alive) return checks;
    } catch (error) {
      this.kill(`broke the protocol: ${messageOf(error)}`);
    } finally {
      clearTimeout(late);
    }
    return await this.#gone.promise;
  }

  /** Limit of a frame: a report before the first piece of work, then output and answers. */
  #bytesMax(kind: number): number | undefined {
    if (this.runs === 0) return kind === FRAME.ready ? READY_BYTES_MAX : undefined;
    if (kind === FRAME.output) return PART_BYTES_MAX;
    return kind === FRAME.answer ? this.answerBytesMax : undefined;
  }
}
