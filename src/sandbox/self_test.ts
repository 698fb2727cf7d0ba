// The operator's self-test of the wall: starts one guest as the pool would, lets it try what it
// must not be able to do, and inspects its process from outside. It leaves nothing behind.

import { AgentError, messageOf } from "../domain/error.ts";
import type { SelfCommand } from "../runtime/executable.ts";
import type { Log } from "../metrics/log.ts";
import { processChecks } from "./wall_checks.ts";
import { findGuestTools, guestCommand, type GuestPlace, type GuestUser } from "./guest_command.ts";
import { openGuestEntrance } from "./entrance.ts";
import { GuestProcess } from "./process.ts";
import { START_DEADLINE_MS, takeRest } from "./walled_process.ts";
import { GUEST_CHECKS, type GuestCheck } from "../wall/protocol.ts";
import type { TaskLimits } from "../wall/task_limits.ts";

/** The same as a pool needs. */
interface SelfTestOptions {
  /** How to start this program again. */
  readonly self: SelfCommand;
  /** Folder for the socket of the guest; not that of a running agent. */
  readonly runtimeDir: string;
  readonly log: Log;
  readonly user?: GuestUser;
  readonly limits: TaskLimits;
  /** The setting `fresh_realm`: each task gets a realm of its own. */
  readonly freshRealm?: boolean;
}

/**
 * Runs the self-test on a fresh guest. The checks are, in this order: `start`; one for each of
 * Deno's permissions (`read`, `write`, `net`, `env`, `run`, `sys`, `ffi`, `import`), `realm` and
 * `primordials`, as the guest reports them; and those of
 * wall_checks.ts. When the guest does not start, the rest is missing. Never throws for what it finds.
 */
export async function testGuest(options: SelfTestOptions): Promise<GuestCheck[]> {
  const { self, runtimeDir, log, user, limits, freshRealm = false } = options;
  const root = Deno.uid() === 0;
  try {
    const { tools } = await findGuestTools({ os: Deno.build.os, root });
    const place: GuestPlace = {
      tools,
      root,
      slots: 1,
      freshRealm,
      ...(user === undefined ? {} : { user }),
    };
    const command = guestCommand(self, place, limits);
    const entrance = await openGuestEntrance({
      runtimeDir,
      ...(user === undefined ? {} : { user }),
    });
    try {
      const token = crypto.randomUUID() + crypto.randomUUID();
      const guest = new GuestProcess(command, entrance.path, token, log);
      try {
        entrance.expect(token, guest);
        const reported = await report(guest);
        // What it could not take is found below.
        await takeRest(command, guest.pid);
        return [
          { check: "start", ok: true, detail: `process ${guest.pid} reported` },
          ...GUEST_CHECKS.map((name) => found(reported, name)),
          ...await processChecks(guest.pid, place, command),
        ];
      } finally {
        guest.kill("was ended after its test");
        await guest.reaped;
      }
    } finally {
      await entrance.close();
    }
  } catch (error) {
    return [{ check: "start", ok: false, detail: messageOf(error) }];
  }
}

/** @throws {AgentError} `internal` when the guest ends instead */
function report(guest: GuestProcess): Promise<readonly GuestCheck[]> {
  const { promise, resolve, reject } = Promise.withResolvers<readonly GuestCheck[]>();
  const late = setTimeout(
    () => guest.kill(`was not ready after ${START_DEADLINE_MS} ms`),
    START_DEADLINE_MS,
  );
  guest.listen({
    message: (message) =>
      message.type === "ready" ? resolve(message.checks) : guest.kill("spoke before it was ready"),
    lost: ({ words }) =>
      reject(new AgentError("internal", `Cannot start a guest: its process ${words}`)),
  });
  return promise.finally(() => {
    clearTimeout(late);
    guest.listen(undefined);
  });
}

function found(reported: readonly GuestCheck[], name: string): GuestCheck {
  const check = reported.find((one) => one.check === name);
  return check ?? { check: name, ok: false, detail: "was not tried" };
}
