// One guest with layers left open, for tests: the pool gives such a guest no task. What runs in it is
// otherwise what runs anywhere, from the program that starts to the messages that cross.

import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import { AgentError } from "../../src/domain/error.ts";
import type { SelfCommand } from "../../src/runtime/executable.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { findGuestTools, guestCommand } from "../../src/sandbox/guest_command.ts";
import { openGuestSocket } from "../../src/sandbox/guest_socket.ts";
import { GuestProcess } from "../../src/sandbox/process.ts";
import type { GuestLayer } from "../../src/guest/guest.ts";
import type { GuestPool } from "../../src/sandbox/pool.ts";
import type { GuestCheck } from "../../src/wall/protocol.ts";
import { withFolder } from "../support/until.ts";
import { type RunBody, runBody } from "./bodies.ts";

/** A guest, and how to run a body in it. */
export interface OpenGuest {
  readonly run: RunBody;
  /** What the guest that runs now has reported. */
  checks(): readonly GuestCheck[];
  /** Guests so far: one that has ended is followed by another. */
  started(): number;
}

/** Runs a function with such a guest; no source is checked. */
export async function withOpenGuest(
  self: SelfCommand,
  open: readonly GuestLayer[],
  run: (guest: OpenGuest) => Promise<void>,
  freshRealm = false,
): Promise<void> {
  const { tools } = await findGuestTools();
  const root = Deno.uid() === 0;
  const command = guestCommand(self, { tools, root, slots: 1, freshRealm }, DEFAULT_LIMITS);
  const args = [...command.args, `open:${open.join()}`];
  await withFolder(async (runtimeDir) => {
    const guestSocket = await openGuestSocket({ runtimeDir });
    let guest: GuestProcess | undefined;
    let checks: readonly GuestCheck[] = [];
    let started = 0;
    const ready = async () => {
      if (guest?.alive === true) return guest;
      await guest?.reaped;
      started += 1;
      const token = crypto.randomUUID() + crypto.randomUUID();
      const next = new GuestProcess({ ...command, args }, guestSocket.path, token, silentLog);
      guest = next;
      guestSocket.expect(token, next);
      checks = await report(next);
      return next;
    };
    const pool: Pick<GuestPool, "acquire" | "release" | "checkSource"> = {
      acquire: ready,
      release: (one) => one.listen(undefined),
      checkSource: () => Promise.resolve(undefined),
    };
    try {
      await ready();
      await run({
        run: (source, body = {}) => runBody(pool, source, body),
        checks: () => checks,
        started: () => started,
      });
    } finally {
      guest?.kill("was ended after its test");
      await guest?.reaped;
      await guestSocket.close();
    }
  });
}

function report(guest: GuestProcess): Promise<readonly GuestCheck[]> {
  const { promise, resolve, reject } = Promise.withResolvers<readonly GuestCheck[]>();
  guest.listen({
    message: (message) => {
      if (message.type === "ready") resolve(message.checks);
    },
    lost: ({ words }) => reject(new AgentError("internal", `Cannot start: its process ${words}`)),
  });
  return promise;
}
