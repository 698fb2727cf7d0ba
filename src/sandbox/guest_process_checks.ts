// What the kernel says of a guest's process: whether the outer wall stands. Read from /proc, which
// Deno opens only to programs with all permissions; `cat` reads it.

import { DATA_BYTES_MAX, FILES_MAX, type GuestPlace } from "./guest_command.ts";
import type { GuestCheck } from "./protocol.ts";

/** An address of the host that a process with a network of its own does not have. */
const LOOPBACK = /\b127\.0\.0\.1$/m;

/**
 * The checks `user`, `privileges`, `capabilities`, `limits` and `network` of a running guest. A wall
 * that this host or this agent cannot have is a check that fails: it tells what is missing.
 */
export async function processChecks(pid: number, place: GuestPlace): Promise<GuestCheck[]> {
  const { cat } = place.tools;
  if (cat === undefined) {
    const detail = "cannot be looked at: that takes Linux and /usr/bin/cat";
    return [{ check: "process", ok: false, detail }];
  }
  const read = async (name: string) => await readProcess(cat, pid, name);
  const status = await read("status");
  const field = (name: string) => new RegExp(`^${name}:\\s*(\\S+)`, "m").exec(status)?.[1] ?? "?";
  const uid = field("Uid");
  const capabilities = ["CapEff", "CapPrm", "CapBnd"].map((name) => `${name} ${field(name)}`);
  return [
    {
      check: "user",
      ok: uid !== "0" && uid !== "?",
      detail: uid === "0" ? "guests run as root" : `guests run as user ${uid}`,
    },
    {
      check: "privileges",
      ok: field("NoNewPrivs") === "1",
      detail: `NoNewPrivs is ${field("NoNewPrivs")}`,
    },
    {
      check: "capabilities",
      // The bounding set of a process that was never root means nothing without a way to gain.
      ok: ["CapEff", "CapPrm"].every((name) => /^0+$/.test(field(name))),
      detail: capabilities.join(", "),
    },
    limitsCheck(await read("limits")),
    networkCheck(await read("net/fib_trie")),
  ];
}

function limitsCheck(limits: string): GuestCheck {
  const wanted: readonly (readonly [name: string, value: number])[] = [
    ["Max data size", DATA_BYTES_MAX],
    ["Max open files", FILES_MAX],
    ["Max core file size", 0],
  ];
  const missing = wanted.filter(([name, value]) =>
    !new RegExp(`^${name} +${value} +${value} `, "m").test(limits)
  ).map(([name]) => name);
  const ok = missing.length === 0;
  return { check: "limits", ok, detail: ok ? "are set" : `without ${missing.join(", ")}` };
}

function networkCheck(table: string): GuestCheck {
  const ok = !LOOPBACK.test(table);
  return {
    check: "network",
    ok,
    detail: ok
      ? "guests have a network of their own, with nothing in it"
      : "guests share the networks of the host, closed to them by Deno alone",
  };
}

async function readProcess(cat: string, pid: number, name: string): Promise<string> {
  const { stdout } = await new Deno.Command(cat, {
    args: [`/proc/${pid}/${name}`],
    clearEnv: true,
    cwd: "/",
    stdin: "null",
    stderr: "null",
  }).output();
  return new TextDecoder().decode(stdout);
}
