// The agent's pool of decoders, the processes that read bytes from outside. There are few; work
// waits in order for a free one.
//
// Two pieces of work share a process only when they are of one kind and the caller names the same
// origin. A decoder taken over by its input can then falsify only what comes from that origin.
// Everything else gets a fresh process.

import { join } from "@std/path";
import { abortedError, AgentError, messageOf } from "../domain/error.ts";
import type { JsonObject, JsonValue } from "../domain/json.ts";
import type { SelfCommand } from "../runtime/executable.ts";
import type { Log } from "../metrics/log.ts";
import {
  decoderCommand,
  decodersMax,
  findGuestTools,
  type FindTools,
  type GuestUser,
  type WalledCommand,
} from "../sandbox/guest_command.ts";
import { openOrphanKiller } from "../sandbox/orphaned_guests.ts";
import { STARTS_FAILED_MAX } from "../sandbox/walled_process.ts";
import { MemoryWatch } from "../sandbox/memory_watch.ts";
import {
  CANCELED,
  type DecoderInput,
  type DecoderOptions,
  runWork,
  type WorkOrder,
} from "./work_order.ts";
import { DecoderLost, DecoderProcess } from "./process.ts";
import type { WorkName } from "./decoder_message.ts";
import { type WorkKind, WorkQueue } from "./work_queue.ts";

/** Work whose output is read while it runs. */
interface DecoderStream {
  /** Starts when it is read, and must be read to the end; leaving it aborts the work. */
  readonly output: AsyncIterable<Uint8Array<ArrayBuffer>>;
  /** Settles when the output has ended. */
  readonly answer: Promise<JsonValue>;
}

/** Decoders, each lent for one piece of work. */
export interface Decoders {
  /**
   * Runs one piece of work: bytes in, one JSON value out.
   * @throws {AgentError} the work's own error; the options' `code` when the decoder ends or exceeds
   *   its time or memory; `aborted`; `overloaded` when too much work waits or no decoder starts;
   *   and whatever the input throws
   */
  ask(
    work: WorkName,
    request: JsonObject,
    input: DecoderInput,
    options: DecoderOptions,
  ): Promise<JsonValue>;
  /** Bytes in, bytes out as they are read, and one JSON value at the end. Throws as ask(). */
  stream(
    work: WorkName,
    request: JsonObject,
    input: DecoderInput,
    options: DecoderOptions,
  ): DecoderStream;
  /** Starts a decoder ahead of the first piece of work. */
  warm(): void;
  pids(): number[];
  /** Kills every decoder and waits until all have exited. */
  close(): Promise<void>;
}

/** Counters for the metrics; they only grow. */
interface DecoderCounts {
  /** Pieces of work that were begun. */
  works: number;
  /** Decoders that ended, or were killed, before they answered. */
  deaths: number;
}

/** As whom and with which program decoders run. */
export interface DecodersPlace {
  /** Command that starts this program again. */
  readonly self: SelfCommand;
  readonly log: Log;
  /** The user for decoders; the agent's own unless given. */
  readonly user?: GuestUser;
  /** Guests of the same user, which count against the same process limit. */
  readonly slots?: number;
  readonly counts?: DecoderCounts;
  /** Looks for the tools that start decoders; see findGuestTools(). */
  readonly findTools?: FindTools;
  /** The state folder of an agent. */
  readonly stateDir?: string;
}

/** Pieces of work that one decoder does before it is replaced. */
const RUNS_MAX = 1000;
/** Idle time after which a used decoder is ended, milliseconds. */
const IDLE_MS = 60_000;

/** Opens decoders. None is started yet. */
export function openDecoders(place: DecodersPlace): Decoders {
  return new DecoderPool(place);
}

class DecoderPool implements Decoders {
  readonly #place: DecodersPlace;
  readonly #counts: DecoderCounts;
  readonly #all = new Set<DecoderProcess>();
  readonly #unreaped = new Set<Promise<void>>();
  /** Unused decoders, started or starting. */
  readonly #fresh: DecoderProcess[] = [];
  /** Used decoders kept for their kind and origin, the one idle longest first. */
  readonly #kept: KeptDecoder[] = [];
  readonly #queue = new WorkQueue(decodersMax());
  #walls: Promise<Walls> | undefined;
  #closed = false;

  constructor(place: DecodersPlace) {
    this.#place = place;
    this.#counts = place.counts ?? { works: 0, deaths: 0 };
  }

  async ask(
    work: WorkName,
    request: JsonObject,
    input: DecoderInput,
    options: DecoderOptions,
  ): Promise<JsonValue> {
    const run = this.#run({ work, request, input, options }, "ask");
    const { value, done } = await run.next();
    if (done === true) return value;
    await run.return(null);
    throw new AgentError(
      "internal",
      `Cannot ${options.what}: ${work} has output, expected the call of a stream`,
    );
  }

  stream(
    work: WorkName,
    request: JsonObject,
    input: DecoderInput,
    options: DecoderOptions,
  ): DecoderStream {
    const { promise: answer, resolve, reject } = Promise.withResolvers<JsonValue>();
    // A caller that reads the output gets the same error there.
    answer.catch(() => {});
    const kind = work === "hashes" ? "shared_stream" : "stream";
    const run = this.#run({ work, request, input, options }, kind);
    const output = async function* () {
      try {
        resolve(yield* run);
      } catch (error) {
        reject(error);
        throw error;
      } finally {
        reject(abortedError(`Cannot ${options.what}`));
      }
    };
    return { output: output(), answer };
  }

  warm(): void {
    this.#fill().catch((error) => {
      // Work took the decoder while it started, and was canceled.
      const canceled = error instanceof DecoderLost && error.end.words === CANCELED;
      if (!this.#closed && !canceled) this.#place.log.error("decoder not started", { error });
    });
  }

  pids(): number[] {
    return [...this.#all].map(({ pid }) => pid);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#queue.close();
    for (const { timer } of this.#kept) clearTimeout(timer);
    for (const decoder of this.#all) decoder.kill("was ended with the others");
    const walls = await this.#walls;
    walls?.memory.close();
    await Promise.all(this.#unreaped);
    await walls?.command.orphanKiller?.close();
  }

  /** Waits for a turn and a decoder, and runs one piece of work. */
  async *#run(
    order: WorkOrder,
    kind: WorkKind,
  ): AsyncGenerator<Uint8Array<ArrayBuffer>, JsonValue> {
    const { work, options } = order;
    const leave = await this.#queue.enter(kind, options);
    try {
      const { memory, command } = await this.#openWalls();
      const key = options.origin === undefined ? undefined : `${work} ${options.origin}`;
      const decoder = await this.#take(command, key, options);
      this.#counts.works += 1;
      try {
        memory.enter(decoder);
        return yield* runWork(decoder, order);
      } catch (error) {
        if (error instanceof AgentError && error.cause instanceof DecoderLost) {
          this.#counts.deaths += 1;
        }
        throw error;
      } finally {
        memory.leave(decoder);
        this.#release(decoder, key);
      }
    } finally {
      leave();
      this.warm();
    }
  }

  /** @throws {AgentError} `overloaded` when none starts; `aborted` */
  async #take(
    command: WalledCommand,
    key: string | undefined,
    options: DecoderOptions,
  ): Promise<DecoderProcess> {
    const { what, signal } = options;
    const at = this.#kept.findIndex((one) => one.key === key);
    const [kept] = at === -1 ? [] : this.#kept.splice(at, 1);
    clearTimeout(kept?.timer);
    if (kept !== undefined) return kept.decoder;
    const abort = () => decoder?.kill(CANCELED);
    signal?.addEventListener("abort", abort, { once: true });
    let decoder: DecoderProcess | undefined;
    let why = "";
    try {
      for (let starts = 1; starts <= STARTS_FAILED_MAX; starts++) {
        try {
          decoder = this.#fresh.shift() ?? this.#start(command);
          await decoder.ready;
        } catch (error) {
          why = error instanceof DecoderLost ? `its process ${error.end.words}` : messageOf(error);
        }
        if (signal?.aborted === true || this.#closed) throw abortedError(`Cannot ${what}`);
        if (decoder?.alive === true) return decoder;
      }
    } finally {
      signal?.removeEventListener("abort", abort);
    }
    throw new AgentError("overloaded", `Cannot ${what}: no decoder was started: ${why}`);
  }

  /** Keeps a decoder for its kind and origin, or ends it. */
  #release(decoder: DecoderProcess, key: string | undefined): void {
    if (!decoder.alive) return;
    if (key === undefined || decoder.runs >= RUNS_MAX || this.#closed) {
      return decoder.kill("was ended after its work");
    }
    const timer = setTimeout(() => decoder.kill("was ended: it had nothing to do"), IDLE_MS);
    this.#kept.push({ decoder, key, timer });
  }

  /** Keeps one unused decoder ready, as far as there is room. */
  async #fill(): Promise<void> {
    const { command } = await this.#openWalls();
    if (this.#closed || this.#fresh.length > 0 || this.#all.size >= decodersMax()) return;
    const decoder = this.#start(command);
    this.#fresh.push(decoder);
    await decoder.ready;
  }

  /** Starts a decoder, ending an idle one at the limit. */
  #start(command: WalledCommand): DecoderProcess {
    if (this.#closed) throw new AgentError("aborted", "Cannot start a decoder: the pool is closed");
    if (this.#all.size >= decodersMax()) {
      const [longest] = this.#kept;
      longest?.decoder.kill("was ended for another kind of work");
    }
    const decoder = new DecoderProcess(command, this.#place.log, () => this.#gone(decoder));
    this.#all.add(decoder);
    const reaped = decoder.reaped.finally(() => this.#unreaped.delete(reaped));
    this.#unreaped.add(reaped);
    return decoder;
  }

  #gone(decoder: DecoderProcess): void {
    this.#all.delete(decoder);
    const fresh = this.#fresh.indexOf(decoder);
    if (fresh !== -1) this.#fresh.splice(fresh, 1);
    const kept = this.#kept.findIndex((one) => one.decoder === decoder);
    if (kept === -1) return;
    clearTimeout(this.#kept[kept]?.timer);
    this.#kept.splice(kept, 1);
  }

  #openWalls(): Promise<Walls> {
    return this.#walls ??= openWalls(this.#place);
  }
}

/** An idle decoder kept for its kind and origin. */
interface KeptDecoder {
  readonly decoder: DecoderProcess;
  readonly key: string;
  readonly timer: ReturnType<typeof setTimeout>;
}

/** How decoders are started, and what watches their memory. */
interface Walls {
  readonly command: WalledCommand;
  readonly memory: MemoryWatch;
}

async function openWalls(
  { self, log, user, slots = 0, stateDir, findTools = findGuestTools }: DecodersPlace,
): Promise<Walls> {
  const root = Deno.uid() === 0;
  // The guest pool logs the missing tools.
  const { tools } = await findTools();
  const place = { tools, root, slots };
  const command = decoderCommand(self, user === undefined ? place : { ...place, user });
  const folder = stateDir === undefined ? undefined : join(stateDir, "kept-decoders");
  const orphanKiller = await openOrphanKiller(tools, { log, folder });
  return { command: { ...command, orphanKiller }, memory: new MemoryWatch(tools, log) };
}
