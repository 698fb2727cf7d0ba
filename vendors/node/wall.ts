// The wall that Node has around a guest or a decoder, and the tries that prove it. Every try opens a door of
// Node itself: a function of this adapter that refused by its own would prove nothing.

import child from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import process from "node:process";
import os from "node:os";

/** The permission model, where a process can give permissions up. */
interface Droppable {
  drop?(scope: string): void;
}

const SCOPES = ["fs.read", "fs.write", "child", "worker", "net", "addon", "wasi", "inspector"];

/** Refusals by the model, and by a kernel that gave the process nothing to use. */
const REFUSALS = new Set([
  "EACCES",
  "EADDRNOTAVAIL",
  "ENETUNREACH",
  "EPERM",
  "ERR_ACCESS_DENIED",
  "ERR_DLOPEN_DISABLED",
  "ERR_UNSUPPORTED_ESM_URL_SCHEME",
]);

type Door = readonly [check: string, what: string, attempt: () => unknown];

const DOORS: readonly Door[] = [
  ["read", "read a file", () => fs.statSync("/")],
  ["read", "read a file by SQLite", () => process.getBuiltinModule("node:sqlite") ?? refuse()],
  ["write", "write a file", () => fs.mkdirSync("/zonewright-guest-probe")],
  ["net", "use the network", () => bind("127.0.0.1")],
  ["env", "read the environment", () => readEnvironment()],
  ["run", "run a program", () => run("/bin/true")],
  ["sys", "ask about the system", () => os.hostname()],
  ["sys", "send signals", () => process.kill(process.pid, 0)],
  ["ffi", "load a library", () => process.dlopen({ exports: {} }, "/zonewright-guest-probe.node")],
  // Not a literal: a bundler would look for it.
  ["import", "import from the network", () => import(["https:", "", "127.0.0.1:1"].join("/"))],
];

const CHECKS: readonly string[] = [...new Set(DOORS.map(([check]) => check))];

/**
 * Gives up what this Node can give up, and tries every door.
 * @returns a check for each permission that Deno knows
 */
export async function revoke(keep: boolean) {
  const { permission } = process as { permission?: Droppable };
  for (const name of keep ? [] : Object.keys(process.env)) delete process.env[name];
  for (const scope of keep ? [] : SCOPES) {
    try {
      permission?.drop?.(scope);
    } catch {
      // A scope that this version does not know, or that was never given; the doors tell.
    }
  }
  const tried = await Promise.all(DOORS.map(async ([check, what, attempt]) => {
    try {
      await attempt();
    } catch (error) {
      const code = error instanceof Error && "code" in error ? String(error.code) : "";
      if (REFUSALS.has(code)) return { check, what, open: false };
    }
    return { check, what, open: true };
  }));
  // A check with several doors names all that are open.
  return CHECKS.map((check) => {
    const open = tried.filter((one) => one.check === check && one.open);
    const detail = open.length === 0
      ? "refused"
      : `can ${open.map(({ what }) => what).join(" and ")}`;
    return { check, ok: open.length === 0, detail };
  });
}

/** @throws always */
function refuse(message = "it is not there"): never {
  throw Object.assign(new Error(message), { code: "EPERM" });
}

/** @throws the reason when the port cannot be bound */
function bind(address: string): void {
  const server = net.createServer();
  let failure: unknown;
  server.on("error", (error) => void (failure = error));
  const binding = server as unknown as {
    _listen2(address: string, port: number, family: number, backlog: number): void;
  };
  binding._listen2(address, 0, 4, 1);
  const bound = server.listening;
  server.close();
  // Node says why in a later turn; that it has no handle is the refusal of the kernel.
  if (!bound) throw Object.assign(new Error(String(failure)), { code: "ENETUNREACH" });
}

/** @throws when it is empty */
function readEnvironment(): void {
  if (Object.keys(process.env).length > 0) return;
  refuse("it is empty");
}

/** @throws when it does not start */
function run(program: string): void {
  const { error } = child.spawnSync(program);
  if (error !== undefined) throw error;
}
