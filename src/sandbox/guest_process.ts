// One guest as the agent holds it: the process, its connection, and the word for how it ended. What
// a guest sends is passed on parsed; whatever cannot be parsed kills it.

import { messageOf } from "../domain/error.ts";
import type { Log } from "../log.ts";
import type { GuestCommand } from "./guest_command.ts";
import { parseGuestMessage } from "./guest_message.ts";
import { openLineWriter } from "./lines.ts";
import { agentLine, type AgentMessage, type GuestMessage } from "./protocol.ts";
import {
  guestMessageBytesMax,
  type TaskLimits,
  taskLimitsWord,
  unreadCharsMax,
} from "./task_limits.ts";

/** How a guest ended, in words that finish the sentence "its process ...". */
export interface GuestEnd {
  readonly words: string;
  /** It ended because of the memory it took. */
  readonly outOfMemory: boolean;
}

/** Takes what becomes of a guest while an execution, or its start, is under way. */
export interface GuestListener {
  message(message: GuestMessage): void;
  /** The guest is gone; nothing follows. Called at once when it was gone already. */
  lost(end: GuestEnd): void;
}

/** Bytes that a guest may write to its output; a sound one writes nothing before V8 gives up. */
const OUTPUT_BYTES_MAX = 1024 * 1024;
const OUTPUT_LINES_MAX = 50;
const OUTPUT_LINE_CHARS_MAX = 500;
/** Characters kept of the last output, in which V8 tells why it gave up. */
const TAIL_CHARS_MAX = 4000;
/** Time for a process to be gone after its connection has ended, milliseconds. */
const EXIT_WAIT_MS = 2000;

const OUT_OF_MEMORY = /out of memory|heap limit|allocation (of \d+ bytes )?failed/i;

const ABORT_SIGNALS: readonly Deno.Signal[] = ["SIGABRT", "SIGTRAP", "SIGILL", "SIGKILL"];

/** A running guest. It is opened by starting its process and closed by `kill()`. */
export class GuestProcess {
  readonly pid: number;
  /** Kept when the process has been reaped and its output read to the end. */
  readonly reaped: Promise<void>;
  /** Executions so far; numbers the messages of the present one. */
  runs = 0;

  readonly #child: Deno.ChildProcess;
  readonly #limits: TaskLimits;
  readonly #log: Log;
  #socket: Deno.Conn | undefined;
  #write: ((line: string) => void) | undefined;
  #listener: GuestListener | undefined;
  #outputBytes = 0;
  #tail = "";
  #outputLines = 0;
  #ended: GuestEnd | undefined;
  #silence: ReturnType<typeof setTimeout> | undefined;

  /** Starts a guest that will connect to the socket at `path` and show `token` there. */
  constructor(command: GuestCommand, path: string, token: string, log: Log) {
    this.#child = spawn(command, path);
    this.pid = this.#child.pid;
    this.#limits = command.limits;
    this.#log = log.with({ guest_pid: this.pid });
    const output = [this.#capture(this.#child.stdout), this.#capture(this.#child.stderr)];
    const exited = this.#child.status;
    this.reaped = Promise.all([exited, ...output]).then(() => {});
    Promise.all([exited, ...output]).then(([status]) =>
      this.#end(exitWords(status, this.#tail, command.heapMib))
    );
    this.#giveToken(token);
  }

  /** Whether the guest may still be given work. */
  get alive(): boolean {
    return this.#ended === undefined;
  }

  /** Bytes of one message that it may send. */
  get messageBytesMax(): number {
    return guestMessageBytesMax(this.#limits);
  }

  /** Takes over the connection on which the guest has shown its token. */
  connect(socket: Deno.Conn, lines: AsyncGenerator<string>): void {
    if (!this.alive) return socket.close();
    this.#socket = socket;
    const charsMax = unreadCharsMax(this.#limits);
    this.#write = openLineWriter(socket, {
      charsMax,
      exceeded: () => this.kill(`left over ${charsMax} characters unread`),
    });
    this.#pump(lines);
  }

  /** Hears the guest until the next listener takes over; undefined hears nothing. */
  listen(listener: GuestListener | undefined): void {
    this.#listener = listener;
    if (this.#ended !== undefined) listener?.lost(this.#ended);
  }

  /** Sends one message after those before it. A guest that is gone is told of by the listener. */
  send(message: AgentMessage): void {
    this.#write?.(agentLine(message));
  }

  /** Ends the process at once; `why` finishes the sentence "its process ...". */
  kill(why: string, outOfMemory = false): void {
    this.#end({ words: why, outOfMemory });
    try {
      this.#child.kill("SIGKILL");
    } catch (error) {
      // Gone already: Deno says so with either of these.
      const gone = error instanceof TypeError || error instanceof Deno.errors.NotFound;
      if (!gone) throw error;
    }
  }

  #end(end: GuestEnd): void {
    if (this.#ended !== undefined) return;
    this.#ended = end;
    clearTimeout(this.#silence);
    this.#socket?.close();
    this.#socket = undefined;
    this.#write = undefined;
    this.#listener?.lost(end);
  }

  async #giveToken(token: string): Promise<void> {
    const writer = this.#child.stdin.getWriter();
    // A guest that dies first closes the pipe; the listener is told.
    await writer.write(new TextEncoder().encode(`${token}\n`)).catch(() => {});
    await writer.close().catch(() => {});
  }

  async #pump(lines: AsyncGenerator<string>): Promise<void> {
    try {
      for await (const line of lines) {
        const message = parseGuestMessage(line, this.#limits);
        if (this.alive) this.#listener?.message(message);
      }
    } catch (error) {
      if (this.alive) this.kill(`broke the protocol: ${messageOf(error)}`);
      return;
    }
    // Most often the process has just died: its exit tells more than the end of the connection.
    if (!this.alive) return;
    this.#silence = setTimeout(() => this.kill("closed its connection"), EXIT_WAIT_MS);
  }

  async #capture(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    for await (const bytes of stream) {
      this.#outputBytes += bytes.length;
      if (this.#outputBytes > OUTPUT_BYTES_MAX) {
        this.kill(`wrote more than ${OUTPUT_BYTES_MAX} bytes to its output`);
      }
      const text = decoder.decode(bytes, { stream: true });
      this.#tail = (this.#tail + text).slice(-TAIL_CHARS_MAX);
      for (const line of text.split("\n")) {
        if (line.trim() === "" || this.#outputLines >= OUTPUT_LINES_MAX) continue;
        this.#outputLines += 1;
        this.#log.debug("guest wrote", { line: line.slice(0, OUTPUT_LINE_CHARS_MAX) });
      }
    }
  }
}

function spawn(command: GuestCommand, path: string): Deno.ChildProcess {
  const { program, args, env, uid, gid, limits } = command;
  return new Deno.Command(program, {
    args: [...args, path, taskLimitsWord(limits)],
    clearEnv: true,
    env: { ...env },
    cwd: "/",
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
    ...(uid === undefined ? {} : { uid }),
    ...(gid === undefined ? {} : { gid }),
  }).spawn();
}

/**
 * The end of a process that nobody killed; `output` is the last that it wrote, `heapMib` what its
 * heap may take.
 */
export function exitWords(
  status: Deno.CommandStatus,
  output: string,
  heapMib: number,
): GuestEnd {
  const how = status.signal === null
    ? `ended with exit code ${status.code}`
    : `was ended by ${status.signal}`;
  if (OUT_OF_MEMORY.test(output)) {
    return {
      words: `ran out of memory and ${how} (the limit is ${heapMib} MiB)`,
      outOfMemory: true,
    };
  }
  // V8 gives up with these when it cannot even say so; SIGKILL is what the kernel sends.
  if (status.signal !== null && ABORT_SIGNALS.includes(status.signal)) {
    const words = `${how}, most likely for want of memory (the limit is ${heapMib} MiB)`;
    return { words, outOfMemory: true };
  }
  const [first = ""] = output.trimStart().split("\n");
  const said = first === "" ? "" : `: ${first.slice(0, OUTPUT_LINE_CHARS_MAX)}`;
  return { words: `${how}${said}`, outOfMemory: false };
}
