// The agent's side of one guest: its process, its connection, and the reason of its end. Messages
// are passed on parsed; anything that cannot be parsed kills the guest.

import { sha256Hex } from "../domain/digest.ts";
import { messageOf } from "../domain/error.ts";
import type { WorkflowUuid } from "../domain/id.ts";
import type { Job } from "../domain/job/job.ts";
import type { MemoryBudget } from "../domain/memory_budget.ts";
import type { Log } from "../metrics/log.ts";
import { openLineWriter } from "../wall/lines.ts";
import { agentLine, type AgentMessage, type GuestMessage } from "../wall/protocol.ts";
import { guestMessageBytesMax, type TaskLimits, UNREAD_CHARS_MAX } from "../wall/task_limits.ts";
import type { GuestCommand } from "./guest_command.ts";
import { LargeMessageTurns, MessageMemory, parseGuestMessage } from "./untrusted_message.ts";
import {
  EXIT_WAIT_MS,
  exitWords,
  killProcess,
  OUTPUT_WORDS,
  type ProcessEnd,
  ProcessOutput,
  spawnWalled,
} from "./walled_process.ts";

/** Receives the events of a guest during a start or an execution. */
export interface GuestListener {
  /** Nothing more is read from the guest until the result settles. */
  message(message: GuestMessage): Promise<void> | void;
  /** The guest is gone, and no other event follows. Called immediately if it was gone already. */
  lost(end: ProcessEnd): void;
}

/** A running guest, opened by starting its process and closed by `kill()`. */
export class GuestProcess {
  readonly pid: number;
  /** Settles when the process has been reaped and its output read to the end. */
  readonly reaped: Promise<void>;
  /** Executions so far; identifies the messages of the current one. */
  runs = 0;

  readonly #child: Deno.ChildProcess;
  readonly #limits: TaskLimits;
  readonly #log: Log;
  readonly #turns: LargeMessageTurns;
  readonly #memory: MessageMemory;
  #owner: GuestOwner | undefined;
  #socket: Deno.Conn | undefined;
  #write: ((line: string) => void) | undefined;
  #listener: GuestListener | undefined;
  #ended: ProcessEnd | undefined;
  #silence: ReturnType<typeof setTimeout> | undefined;

  /** Starts a guest that will connect to the socket at `path` and send `token`. */
  constructor(
    command: GuestCommand,
    path: string,
    token: string,
    log: Log,
    turns = new LargeMessageTurns(),
  ) {
    const args = [...command.args, path, String(command.limits.resultCharsMax)];
    this.#child = spawnWalled({ ...command, args });
    this.#turns = turns;
    this.#memory = new MessageMemory(turns, (words) => this.kill(words));
    this.pid = this.#child.pid;
    this.#limits = command.limits;
    this.#log = log.with({ guest_pid: this.pid });
    const said = new ProcessOutput(this.#log, () => this.kill(OUTPUT_WORDS));
    const output = [said.take(this.#child.stdout), said.take(this.#child.stderr)];
    const exited = this.#child.status;
    this.reaped = Promise.all([exited, ...output]).then(() => {});
    Promise.all([exited, ...output]).then(([status]) =>
      this.#end(exitWords(status, said.tail, command.memoryMib))
    );
    this.#giveToken(token);
  }

  /** Whether the guest may be given work. */
  get alive(): boolean {
    return this.#ended === undefined;
  }

  /** The workflow that it serves; undefined for a spare. */
  get owner(): GuestOwner | undefined {
    return this.#owner;
  }

  /**
   * Assigns the guest to a workflow, permanently.
   * @throws {Error} when it serves another one: a defect of the agent
   */
  serve(owner: GuestOwner): void {
    this.#owner ??= owner;
    if (this.#owner !== owner) throw new Error("Cannot use a guest: it serves another workflow");
  }

  /** Longest message that it may send, bytes. */
  get messageBytesMax(): number {
    return guestMessageBytesMax(this.#limits);
  }

  /** The budget for its messages and calls. */
  get budget(): MemoryBudget {
    return this.#turns.budget;
  }

  /** Memory for an arriving message; nothing more is read until it is available. */
  hold(arrivedBytes: number): Promise<void> | undefined {
    return this.#memory.hold(arrivedBytes, this.messageBytesMax);
  }

  /** Takes over the connection that sent the guest's token. */
  connect(socket: Deno.Conn, lines: AsyncGenerator<string>): void {
    if (!this.alive) return socket.close();
    this.#socket = socket;
    this.#write = openLineWriter(socket, {
      charsMax: UNREAD_CHARS_MAX,
      exceeded: () => this.kill(`left over ${UNREAD_CHARS_MAX} characters unread`),
    });
    this.#pump(lines);
  }

  /** Sets the receiver of the guest's events; undefined ignores them. */
  listen(listener: GuestListener | undefined): void {
    this.#listener = listener;
    if (this.#ended !== undefined) listener?.lost(this.#ended);
  }

  /** Sends one message after those before it. The listener reports a lost guest. */
  send(message: AgentMessage): void {
    this.#write?.(agentLine(message));
  }

  /** Kills the process; `why` finishes the sentence "its process ...". */
  kill(why: string, outOfMemory = false): void {
    this.#end({ words: why, outOfMemory });
    killProcess(this.#child);
  }

  #end(end: ProcessEnd): void {
    if (this.#ended !== undefined) return;
    this.#ended = end;
    clearTimeout(this.#silence);
    this.#memory.close();
    this.#socket?.close();
    this.#socket = undefined;
    this.#write = undefined;
    this.#listener?.lost(end);
  }

  async #giveToken(token: string): Promise<void> {
    const writer = this.#child.stdin.getWriter();
    // If the guest dies first, it closes the pipe, and the listener is called.
    await writer.write(new TextEncoder().encode(`${token}\n`)).catch(() => {});
    await writer.close().catch(() => {});
  }

  async #pump(lines: AsyncGenerator<string>): Promise<void> {
    try {
      for await (const line of lines) {
        this.#memory.arrived(line);
        const turn = this.#turns.of(line);
        if (turn !== undefined) await turn;
        if (!this.alive) return;
        const message = parseGuestMessage(line, this.#limits);
        const taken = this.#listener?.message(message);
        // Most messages are handled immediately; awaiting would cost each a turn of the event loop.
        if (taken !== undefined) await taken;
        this.#memory.release();
      }
    } catch (error) {
      if (this.alive) this.kill(`broke the protocol: ${messageOf(error)}`);
      return;
    }
    // The process has usually just died: its exit status says more than a closed connection.
    if (!this.alive) return;
    this.#silence = setTimeout(() => this.kill("closed its connection"), EXIT_WAIT_MS);
  }
}

/**
 * The workflow that owns a guest: its uuid and the text of its tasks, so that a changed workflow gets new processes. A
 * guest never serves two workflows: whatever a body does to its process reaches only later jobs of the same source.
 */
export type GuestOwner = string & { readonly brand: "GuestOwner" };

/** The owner of the guests that run a job's tasks. */
export type OwnerOf = (job: OwnedJob) => Promise<GuestOwner>;

/** The part of a job that identifies its workflow: the job's own copy of the tasks. */
export type OwnedJob = Pick<Job, "workflow_uuid" | "chain" | "onerror" | "oncancel">;

interface KnownOwner extends OwnedJob {
  readonly owner: GuestOwner;
}

/**
 * Computes owners. The text is hashed once for each definition that the store holds in memory: its
 * jobs share the lists of tasks.
 */
export function openGuestOwners(): OwnerOf {
  const known = new WeakMap<Job["chain"], KnownOwner>();
  return async ({ workflow_uuid, chain, onerror, oncancel }) => {
    const before = known.get(chain);
    if (
      before?.workflow_uuid === workflow_uuid && before.onerror === onerror &&
      before.oncancel === oncancel
    ) return before.owner;
    const owner = await guestOwner(workflow_uuid, [chain, onerror, oncancel]);
    known.set(chain, { workflow_uuid, chain, onerror, oncancel, owner });
    return owner;
  };
}

async function guestOwner(uuid: WorkflowUuid, tasks: readonly Job["chain"][]): Promise<GuestOwner> {
  const text = new TextEncoder().encode(JSON.stringify(tasks));
  return `${uuid} ${await sha256Hex(text)}` as GuestOwner;
}
