// Examines the walls around guests and decoders, one by one, by starting such a process on this host.

import { DecoderProcess } from "../decoder/process.ts";
import { AgentError, messageOf } from "../domain/error.ts";
import { type Wall, wallsText } from "../domain/host.ts";
import type { Log } from "../metrics/log.ts";
import type { SelfCommand } from "../runtime/executable.ts";
import { openGuestSocket } from "../sandbox/guest_socket.ts";
import {
  decoderCommand,
  findGuestTools,
  guestCommand,
  type GuestPlace,
  type GuestUser,
  withoutWords,
} from "../sandbox/guest_command.ts";
import { GuestProcess } from "../sandbox/process.ts";
import { findGuestUser } from "../sandbox/user.ts";
import { processChecks } from "../sandbox/wall_checks.ts";
import { START_DEADLINE_MS, takeRest } from "../sandbox/walled_process.ts";
import { GUEST_CHECKS, GUEST_PERMISSIONS, type GuestCheck } from "../wall/protocol.ts";
import type { TaskLimits } from "../wall/task_limits.ts";

/** The findings about one kind of process, as the doctor shows them. */
interface WallsFinding {
  readonly outcome: "ok" | "warn" | "fail";
  readonly detail: string;
  /** What the operator can do about it. */
  readonly fix?: string;
  /** The walls one by one; absent when the process did not start. */
  readonly parts?: readonly Wall[];
}

/** Examines the walls around one kind of process. */
interface WallsCheck {
  readonly name: string;
  readonly about: string;
  examine(): Promise<WallsFinding>;
}

interface WallSettings {
  readonly self: SelfCommand;
  readonly user: string;
  readonly freshRealm: boolean;
  readonly limits: TaskLimits;
  readonly log: Log;
}

/**
 * The walls around guests, by the same self-test that every guest passes before its first task.
 * @see docs/sandbox.md
 */
export function guestsCheck(settings: WallSettings): WallsCheck {
  return {
    name: "guests",
    about: "each wall around tasks stands, in a guest started for it",
    examine: () => examineWalls(settings, testGuestHere),
  };
}

/** The walls around decoders, which have no socket and no tasks. */
export function decodersCheck(settings: WallSettings): WallsCheck {
  return {
    name: "decoders",
    about: "the same in a decoder, which parses foreign bytes",
    examine: () => examineWalls(settings, testDecoder),
  };
}

/** Starts a process behind the walls, and examines it from inside and outside. */
type Test = (settings: WallSettings, user: GuestUser | undefined) => Promise<readonly GuestCheck[]>;

async function testGuestHere(
  { self, freshRealm, limits, log }: WallSettings,
  user: GuestUser | undefined,
): Promise<readonly GuestCheck[]> {
  const runtimeDir = await Deno.makeTempDir({ prefix: "zonewright-doctor-" });
  try {
    return await testGuest({
      self,
      runtimeDir,
      freshRealm,
      limits,
      log,
      ...(user === undefined ? {} : { user }),
    });
  } finally {
    await Deno.remove(runtimeDir, { recursive: true });
  }
}

async function testDecoder(
  { self, log }: WallSettings,
  user: GuestUser | undefined,
): Promise<readonly GuestCheck[]> {
  const root = Deno.uid() === 0;
  const { tools } = await findGuestTools({ os: Deno.build.os, root });
  const place = { tools, root, slots: 1, ...(user === undefined ? {} : { user }) };
  const command = decoderCommand(self, place);
  const decoder = new DecoderProcess(command, log, () => {});
  try {
    const permissions = await decoder.ready;
    const start = { check: "start", ok: true, detail: `process ${decoder.pid} reported` };
    return [start, ...permissions, ...await processChecks(decoder.pid, place, command)];
  } catch (error) {
    return [{ check: "start", ok: false, detail: messageOf(error) }];
  } finally {
    decoder.kill("was ended after its test");
    await decoder.reaped;
  }
}

async function examineWalls(settings: WallSettings, test: Test): Promise<WallsFinding> {
  const { self, user: setting, log } = settings;
  const root = Deno.uid() === 0;
  const os = Deno.build.os;
  const user = await findGuestUser(setting, { self, os, root, log });
  const checks = await test(settings, user);
  const [start] = checks;
  if (start === undefined || !start.ok) return { outcome: "fail", detail: start?.detail ?? "none" };
  const parts = wallsOf(checks);
  const broken = parts.filter((one) => !one.ok).map(({ name }) => name);
  const detail = wallsText(parts);
  const { missing } = await findGuestTools({ os, root });
  if (broken.length > 0) {
    // A program that runs from source cannot be read by another user, and nobody serves a host that way. Only root can
    // give a guest a network namespace. No version of Node refuses queries about the system, or signals. Networks that
    // an older version does not refuse are harmless in a network namespace; on illumos they are refused by then.
    const networked = os !== "linux" || broken.includes("network");
    const known = self.walled?.cannotRefuse.filter((name) => name !== "net" || !networked) ?? [];
    const onlyKnown = checks.every(({ check, ok }) =>
      ok || !isPermission(check) || known.includes(check)
    );
    const expected = broken.every((name) =>
      name === "user" && !self.compiled || NAMESPACES.includes(name) && !root ||
      name === "permissions" && onlyKnown
    );
    const fix = "docs/sandbox.md says what makes each of them";
    return { outcome: expected ? "warn" : "fail", detail, fix, parts };
  }
  if (missing.length === 0) return { outcome: "ok", detail, parts };
  const fix = "install the program; docs/sandbox.md says what it adds";
  return { outcome: "warn", detail: `${detail}; without ${withoutWords(missing)}`, fix, parts };
}

/** Names of checks that are called otherwise here. */
const NAMES: Readonly<Record<string, string>> = { privileges: "no new privileges" };
/** The walls that unshare(1) makes. */
const NAMESPACES: readonly string[] = ["network", "ipc", "uts"];

/** The walls by name; the permissions count as one. */
function wallsOf(checks: readonly GuestCheck[]): Wall[] {
  const permissions = checks.filter(({ check }) => isPermission(check));
  const kept = permissions.filter((one) => !one.ok);
  const detail = kept.length === 0
    ? `refused: ${permissions.map(({ check }) => check).join(", ")}`
    : kept.map(({ check, detail }) => `${check}: ${detail}`).join("; ");
  return [
    ...checks.filter(({ check }) => check !== "start" && !isPermission(check))
      .map(({ check, ok, detail }) => ({ name: NAMES[check] ?? check, ok, detail })),
    { name: "permissions", ok: kept.length === 0, detail },
  ];
}

function isPermission(check: string): boolean {
  return GUEST_PERMISSIONS.some((name) => name === check);
}

/** What the self-test needs, as for a pool. */
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
 * The operator's self-test of the wall: starts one guest as the pool would, lets it try what it must not be able to do,
 * and inspects its process from outside. It leaves nothing behind. The checks are, in this order: `start`; one for each of
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
    const guestSocket = await openGuestSocket({
      runtimeDir,
      ...(user === undefined ? {} : { user }),
    });
    try {
      const token = crypto.randomUUID() + crypto.randomUUID();
      const guest = new GuestProcess(command, guestSocket.path, token, log);
      try {
        guestSocket.expect(token, guest);
        const reported = await report(guest);
        // The checks below report what could not be dropped.
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
      await guestSocket.close();
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
