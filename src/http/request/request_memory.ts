// The memory for documents that a request has reserved, released after its answer.

import type { MiddlewareHandler } from "hono";
import type { Account, MemoryBudget, Reservation } from "../../domain/memory_budget.ts";

/** A context with the memory of its request. */
export interface MemoryEnv {
  Variables: { memory: RequestMemory };
}

/** What one request has reserved of the budget that all requests share. */
export class RequestMemory {
  readonly #budget: MemoryBudget;
  readonly #held: Reservation[] = [];

  constructor(budget: MemoryBudget) {
    this.#budget = budget;
  }

  /** @throws {AgentError} `overloaded` */
  async reserve(account: Account, bytes: number, what: string): Promise<Reservation> {
    const held = await this.#budget.reserve(account, bytes, what);
    this.#held.push(held);
    return held;
  }

  release(): void {
    for (const held of this.#held) held.release();
  }
}

/** Opens the memory of each request, and releases it. */
export function remembering(budget: MemoryBudget): MiddlewareHandler<MemoryEnv> {
  return async (c, next) => {
    const memory = new RequestMemory(budget);
    c.set("memory", memory);
    try {
      await next();
    } finally {
      memory.release();
    }
  };
}
