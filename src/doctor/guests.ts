// The guests: whether what takes rights from them is there, and whether one that is started now can
// really do nothing.

import type { SelfCommand } from "../executable.ts";
import type { Log } from "../log.ts";
import { findGuestTools } from "../sandbox/guest_command.ts";
import { findGuestUser } from "../sandbox/guest_user.ts";
import { testGuest } from "../sandbox/self_test.ts";
import { type Check, type Finding, ok } from "./check.ts";

/** What guests are started with. */
export interface GuestSettings {
  readonly self: SelfCommand;
  /** The setting `guest_user`. */
  readonly user: string;
  readonly log: Log;
}

/**
 * The isolation of guests, by the same self-test that every guest passes before its first task.
 * @see docs/sandbox.md
 */
export function guestsCheck({ self, user: setting, log }: GuestSettings): Check {
  return {
    name: "guests",
    about: "a guest that is started now can do nothing but compute",
    async examine(): Promise<Finding> {
      const root = Deno.uid() === 0;
      const os = Deno.build.os;
      const user = await findGuestUser(setting, { self, os, root, log });
      const folder = await Deno.makeTempDir({ prefix: "zonewright-doctor-" });
      try {
        const as = user === undefined ? {} : { user };
        const checks = await testGuest({ self, runtimeDir: folder, log, ...as });
        const broken = checks.filter((one) => !one.ok);
        if (broken.length > 0) {
          const detail = broken.map(({ check, detail }) => `${check}: ${detail}`).join("; ");
          // From source another user could not read the program: nobody serves a host that way. Only
          // root can give guests a network of their own.
          const expected = broken.every(({ check }) =>
            check === "user" && !self.compiled || check === "network" && !root
          );
          return { outcome: expected ? "warn" : "fail", detail };
        }
        const { missing } = await findGuestTools({ os, root });
        const who = user === undefined ? "the agent's own user" : `user ${user.uid}`;
        const detail = `${checks.length} checks passed, as ${who}`;
        if (missing.length === 0) return ok(detail);
        const fix = "install the program, or see docs/sandbox.md for what it adds";
        return { outcome: "warn", detail: `${detail}; missing: ${missing.join(", ")}`, fix };
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    },
  };
}
