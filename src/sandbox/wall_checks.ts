// Checks the outer wall of a guest from outside: what the kernel reports in /proc, which Deno opens
// only with all permissions, so `cat` reads it; on illumos what ps, ppriv and plimit report. Also says what a failed check
// means.

import {
  FILES_MAX,
  type GuestPlace,
  ILLUMOS_LACKING,
  type WalledCommand,
} from "./guest_command.ts";
import { GUEST_CHECKS, type GuestCheck } from "../wall/protocol.ts";

/** Prints the namespace of a process: `cat` does not read links. */
const READLINK = "/usr/bin/readlink";
/** Prints the limits of a process on illumos. */
const PLIMIT = "/usr/bin/plimit";
/** A host address that a separate network does not have. */
const LOOPBACK = /\b127\.0\.0\.1$/m;

/**
 * The checks `user`, `privileges`, `capabilities`, `limits`, `network`, `ipc` and `uts` of a running guest or decoder;
 * on illumos `user`, `privileges`, `network` and `limits`. A wall that is impossible on this host or for this agent
 * fails its check, which names what is missing.
 */
export async function processChecks(
  pid: number,
  place: GuestPlace,
  { addressKibMax, dataBytesMax }: Pick<WalledCommand, "addressKibMax" | "dataBytesMax">,
): Promise<GuestCheck[]> {
  const { cat, ppriv, ps } = place.tools;
  if (cat === undefined) {
    if (ppriv !== undefined && ps !== undefined) {
      return illumosChecks({
        uid: await runText(ps, ["-o", "uid=", "-p", `${pid}`]),
        privileges: await runText(ppriv, ["-v", `${pid}`]),
        limits: await runText(PLIMIT, [`${pid}`]),
      }, addressKibMax);
    }
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
      detail: uid === "0" ? "it is root" : `it is user ${uid}`,
    },
    {
      check: "privileges",
      ok: field("NoNewPrivs") === "1",
      detail: field("NoNewPrivs") === "1"
        ? "no program can give it more privileges"
        : `NoNewPrivs is ${field("NoNewPrivs")}`,
    },
    {
      check: "capabilities",
      // If capabilities cannot be gained, the bounding set has no effect.
      ok: ["CapEff", "CapPrm"].every((name) => /^0+$/.test(field(name))),
      detail: capabilities.join(", "),
    },
    limitsCheck(await read("limits"), dataBytesMax),
    networkCheck(await read("net/fib_trie")),
    await namespaceCheck("ipc", pid, "System V IPC"),
    await namespaceCheck("uts", pid, "host name"),
  ];
}

/** What the programs of illumos print of one process. */
interface IllumosReport {
  /** The numeric user, as `ps -o uid=` prints it. */
  readonly uid: string;
  /** ppriv(1) with `-v`: each set in a line of its own, with every privilege by name. */
  readonly privileges: string;
  /** plimit(1): name, current and greatest value of each limit. */
  readonly limits: string;
}

/** The checks of a process on illumos, from what its programs print there. */
export function illumosChecks(
  { uid, privileges, limits }: IllumosReport,
  addressKibMax: number | undefined,
): GuestCheck[] {
  const user = uid.trim();
  return [
    {
      check: "user",
      ok: /^[1-9]\d*$/.test(user),
      detail: user === "0" ? "it is root" : `it is user ${user || "?"}`,
    },
    ...privilegeChecks(privileges),
    plimitCheck(limits, addressKibMax),
  ];
}

function privilegeChecks(printed: string): GuestCheck[] {
  const lines = printed.matchAll(/^[ \t]*[EIPL]: *(\S+)$/gm);
  const sets = Array.from(lines, ([, names = ""]) => names.split(","));
  const held = new Set(sets.flat());
  // A set that ppriv does not print privilege by privilege may contain any of them.
  const known = sets.length === 4 && !["all", "basic", "zone"].some((name) => held.has(name));
  const kept = ILLUMOS_LACKING.filter((name) => !known || held.has(name));
  const ok = kept.length === 0;
  const words = ok ? `has none of ${ILLUMOS_LACKING.join(", ")}` : `may have ${kept.join(", ")}`;
  const networked = kept.includes("net_access");
  return [
    { check: "privileges", ok, detail: `it ${words}` },
    {
      check: "network",
      ok: !networked,
      detail: networked ? "it may use the networks of the host" : "it may open no network",
    },
  ];
}

function plimitCheck(printed: string, addressKibMax: number | undefined): GuestCheck {
  const lines = printed.split("\n").map((line) => line.trim().split(/\s+/).join(" "));
  const memory = addressKibMax === undefined ? [] : [["vmemory(kbytes)", addressKibMax] as const];
  const wanted = [["nofiles(descriptors)", FILES_MAX], ["coredump(blocks)", 0], ...memory] as const;
  const missing = wanted.filter(([name, value]) => !lines.includes(`${name} ${value} ${value}`))
    .map(([name]) => name);
  const ok = missing.length === 0;
  if (!ok) return { check: "limits", ok, detail: `without ${missing.join(", ")}` };
  const detail = addressKibMax === undefined
    ? "of open files and core files are set; of memory, there are the heap's and the watch"
    : "of memory, open files and core files are set";
  return { check: "limits", ok, detail };
}

async function namespaceCheck(
  check: "ipc" | "uts",
  pid: number,
  what: string,
): Promise<GuestCheck> {
  const [own, ours] =
    (await runText(READLINK, [`/proc/${pid}/ns/${check}`, `/proc/self/ns/${check}`]))
      .trim().split("\n");
  if (!own?.startsWith(`${check}:`) || !ours?.startsWith(`${check}:`)) {
    return { check, ok: false, detail: `its ${what} cannot be looked at` };
  }
  const ok = own !== ours;
  return { check, ok, detail: ok ? `a ${what} of its own` : `it shares the ${what} of the agent` };
}

function limitsCheck(limits: string, dataBytesMax: number): GuestCheck {
  const wanted: readonly (readonly [name: string, value: number])[] = [
    ["Max data size", dataBytesMax],
    ["Max open files", FILES_MAX],
    ["Max core file size", 0],
  ];
  const missing = wanted.filter(([name, value]) =>
    !new RegExp(`^${name} +${value} +${value} `, "m").test(limits)
  ).map(([name]) => name);
  const ok = missing.length === 0;
  return {
    check: "limits",
    ok,
    detail: ok ? "of data, open files and core files are set" : `without ${missing.join(", ")}`,
  };
}

function networkCheck(table: string): GuestCheck {
  const ok = !LOOPBACK.test(table);
  return {
    check: "network",
    ok,
    detail: ok
      ? "a network of its own, with nothing in it"
      : "it shares the networks of the host, closed to it by Deno alone",
  };
}

async function readProcess(cat: string, pid: number, name: string): Promise<string> {
  return await runText(cat, [`/proc/${pid}/${name}`]);
}

/** The output of a program; empty when the program is missing. */
async function runText(program: string, args: string[]): Promise<string> {
  const command = new Deno.Command(program, {
    args,
    clearEnv: true,
    cwd: "/",
    stdin: "null",
    stderr: "null",
  });
  try {
    return new TextDecoder().decode((await command.output()).stdout);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  }
}

/**
 * Why a process may be given no work, in words, or undefined when it passed every check that is required. A check
 * that was not made counts as failed.
 * @param cannotRefuse checks that this runtime cannot pass
 * @param asked the required checks: all for a guest, the permissions for a decoder
 */
export function wallProblem(
  checks: readonly GuestCheck[],
  cannotRefuse: readonly string[],
  asked: readonly string[] = GUEST_CHECKS,
): string | undefined {
  const failed = checks.filter(({ check, ok }) => !ok && !cannotRefuse.includes(check)).map((
    { detail },
  ) => `it ${detail}`);
  const untried = asked.filter((name) => !checks.some(({ check }) => check === name))
    .map((name) => `it did not try "${name}"`);
  const words = [...failed, ...untried];
  return words.length === 0 ? undefined : words.join(", ");
}
