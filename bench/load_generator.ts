// Starts the load generator and hands it orders, one at a time.

import { fromFileUrl } from "@std/path";
import type { BurstOrder, BurstResult, Order, SinglesOrder, SinglesResult } from "./load_order.ts";
import { ownCpuMs } from "./process_use.ts";

const SCRIPT = fromFileUrl(new URL("load.ts", import.meta.url));

export class LoadGenerator {
  readonly #process: Deno.ChildProcess;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #reader: ReadableStreamDefaultReader<string>;
  #rest = "";

  constructor() {
    this.#process = new Deno.Command(Deno.execPath(), {
      args: ["run", "--quiet", "--cached-only", "--allow-net=127.0.0.1", SCRIPT],
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    this.#writer = this.#process.stdin.getWriter();
    this.#reader = this.#process.stdout.pipeThrough(new TextDecoderStream()).getReader();
  }

  /** Processor time that the generator has used, milliseconds. */
  get cpuMs(): number {
    return ownCpuMs(this.#process.pid);
  }

  async burst(order: Omit<BurstOrder, "kind">): Promise<BurstResult> {
    return await this.#ask({ kind: "burst", ...order });
  }

  async singles(order: Omit<SinglesOrder, "kind">): Promise<SinglesResult> {
    return await this.#ask({ kind: "singles", ...order });
  }

  async close(): Promise<void> {
    await this.#writer.close();
    await this.#process.status;
    await this.#reader.cancel();
  }

  async #ask<Result>(order: Order): Promise<Result> {
    await this.#writer.write(new TextEncoder().encode(`${JSON.stringify(order)}\n`));
    while (!this.#rest.includes("\n")) {
      const { value, done } = await this.#reader.read();
      if (done) throw new Error("The load generator ended");
      this.#rest += value;
    }
    const end = this.#rest.indexOf("\n");
    const answer = JSON.parse(this.#rest.slice(0, end));
    this.#rest = this.#rest.slice(end + 1);
    if (typeof answer.error === "string") throw new Error(answer.error);
    return answer;
  }
}
