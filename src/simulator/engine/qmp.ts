// Speaks with a running emulator over its control socket: commands go one after another, and the end
// of the connection is the end of the emulator. @see the QEMU QMP reference manual

import { AgentError } from "../../domain/error.ts";
import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import { writeAll } from "../console/byte_reader.ts";

/** One message that is longer is no message of an emulator, characters. */
const MESSAGE_CHARS_MAX = 1 << 20;

/** A control connection to one emulator. */
export class Qmp {
  readonly #conn: Deno.Conn;
  /** The answer to the command that is under way. */
  #answer: PromiseWithResolvers<void> | null = null;
  #turn: Promise<void> = Promise.resolve();
  #lost = false;

  private constructor(conn: Deno.Conn) {
    this.#conn = conn;
  }

  /** Takes over a connection and makes it ready for commands. */
  static async over(conn: Deno.Conn): Promise<Qmp> {
    const qmp = new Qmp(conn);
    qmp.#read().catch(() => {}).finally(() => qmp.#lose());
    await qmp.execute("qmp_capabilities");
    return qmp;
  }

  /** @throws {AgentError} `host` with the emulator's words when it refuses or has ended */
  execute(command: string, args: JsonObject = {}): Promise<void> {
    const turn = this.#turn.then(() => this.#execute(command, args));
    this.#turn = turn.catch(() => {});
    return turn;
  }

  close(): void {
    try {
      this.#conn.close();
    } catch (error) {
      if (!(error instanceof Deno.errors.BadResource)) throw error;
    }
  }

  async #execute(command: string, args: JsonObject): Promise<void> {
    const answer = Promise.withResolvers<void>();
    if (this.#lost) throw ended();
    this.#answer = answer;
    const text = JSON.stringify({ execute: command, arguments: args });
    await writeAll(this.#conn, new TextEncoder().encode(`${text}\n`));
    await answer.promise;
  }

  async #read(): Promise<void> {
    const decoder = new TextDecoder();
    const buffer = new Uint8Array(16_384);
    let rest = "";
    for (;;) {
      const count = await this.#conn.read(buffer);
      if (count === null || rest.length > MESSAGE_CHARS_MAX) return;
      const lines = (rest + decoder.decode(buffer.subarray(0, count), { stream: true })).split(
        "\n",
      );
      rest = lines.pop() ?? "";
      for (const line of lines) this.#hear(JSON.parse(line));
    }
  }

  /** The greeting and events come between answers, and are of no use here. */
  #hear(message: unknown): void {
    if (!isJsonObject(message) || !("return" in message || "error" in message)) return;
    const answer = this.#answer;
    this.#answer = null;
    if (!isJsonObject(message.error)) return answer?.resolve();
    answer?.reject(new AgentError("host", `qemu: ${String(message.error.desc)}`));
  }

  #lose(): void {
    this.#lost = true;
    this.#answer?.reject(ended());
    this.close();
  }
}

function ended(): AgentError {
  return new AgentError("host", "qemu: it has ended");
}
