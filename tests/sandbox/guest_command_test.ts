// The command line of a guest, for each kind of host and agent.

import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import { AgentError } from "../../src/domain/error.ts";
import type { SelfCommand } from "../../src/runtime/executable.ts";
import {
  ADDRESS_KIB_MAX,
  decoderCommand,
  decodersMax,
  findGuestTools,
  type GuestCommand,
  guestCommand as commandOf,
  type GuestPlace,
  type HostSystem,
} from "../../src/sandbox/guest_command.ts";
import { exitWords } from "../../src/sandbox/walled_process.ts";

const COMPILED: SelfCommand = { program: "/opt/zonewright", args: [], env: {}, compiled: true };
const SOURCE: SelfCommand = {
  program: "/opt/deno",
  args: ["run", "--quiet", "main.ts"],
  env: { DENO_DIR: "/cache" },
  compiled: false,
};
const TOOLS = { setpriv: "/usr/bin/setpriv", prlimit: "/usr/bin/prlimit", nice: "/usr/bin/nice" };
const USER = { uid: 990, gid: 991 };
const NAMES: Partial<Record<HostSystem, string[]>> = {
  linux: ["cat", "nice", "prlimit", "setpriv", "unshare"],
  illumos: ["nice", "ppriv", "ps", "sh"],
  solaris: ["nice", "ppriv", "ps", "sh"],
  darwin: [],
};

/** The command line with the default limits. */
function guestCommand(self: SelfCommand, place: GuestPlace): GuestCommand {
  return commandOf(self, place, DEFAULT_LIMITS);
}

Deno.test("guestCommand() runs the tools of the host, which drop every privilege and limit the guest", () => {
  const { program, args, uid } = guestCommand(COMPILED, {
    tools: TOOLS,
    root: true,
    slots: 4,
    user: USER,
  });
  assertEquals(
    [program, ...args].join(" "),
    [
      "/usr/bin/nice -n 10",
      "/usr/bin/setpriv --no-new-privs --pdeathsig=KILL --clear-groups --bounding-set=-all",
      "--inh-caps=-all --reuid=990 --regid=991",
      "/usr/bin/prlimit --data=828435456 --nofile=64 --core=0 --fsize=0",
      "/opt/zonewright guest",
    ].join(" "),
  );
  assertEquals(uid, undefined);
});

Deno.test("guestCommand() keeps the user id when none is given", () => {
  const { args } = guestCommand(COMPILED, { tools: TOOLS, root: false, slots: 4 });
  assertEquals(args.some((arg) => /reuid|regid|clear-groups|bounding/.test(arg)), false);
});

Deno.test("guestCommand() starts the program itself where the host has no tools", () => {
  const command = guestCommand(COMPILED, { tools: {}, root: true, slots: 4, user: USER });
  assertEquals(command, {
    program: "/opt/zonewright",
    args: ["guest"],
    env: { MALLOC_ARENA_MAX: "1", MALLOC_TRIM_THRESHOLD_: "131072" },
    ...USER,
    // Without prlimit it is that of the binary.
    memoryMib: 320,
    dataBytesMax: 828_435_456,
    cannotRefuse: [],
    limits: DEFAULT_LIMITS,
  });
});

Deno.test("guestCommand() adds the options of Deno when the program runs from source", () => {
  const { program, args, env } = guestCommand(SOURCE, { tools: {}, root: false, slots: 4 });
  assertEquals([program, ...args], [
    "/opt/deno",
    "run",
    "--no-npm",
    "--v8-flags=--max-old-space-size=128,--disallow-code-generation-from-strings," +
    "--max-semi-space-size=4",
    "--no-remote",
    "--no-code-cache",
    "--quiet",
    "main.ts",
    "guest",
  ]);
  assertEquals(env, { DENO_DIR: "/cache" });
  const limited = guestCommand(SOURCE, { tools: TOOLS, root: false, slots: 4 });
  assertEquals(limited.args.includes("--fsize=0"), false);
});

Deno.test("decoderCommand() has the walls of a guest, packages, and memory of its own", () => {
  const place = { tools: TOOLS, root: true, slots: 4, user: USER };
  const { args, memoryMib } = decoderCommand(COMPILED, place);
  assertEquals(args, [...guestCommand(COMPILED, place).args.slice(0, -1), "decoder"]);
  assertEquals(memoryMib, 256);
  const fromSource = decoderCommand(SOURCE, { tools: {}, root: false, slots: 4 }).args.join(" ");
  assertMatch(fromSource, /^run --v8-flags=--max-old-space-size=256,/);
  assertEquals(fromSource.includes("--no-npm"), false);
});

Deno.test("guestCommand() refuses another user when the agent is not root", () => {
  const error = assertThrows(
    () => guestCommand(COMPILED, { tools: TOOLS, root: false, slots: 4, user: USER }),
    AgentError,
    "Cannot run guests as user 990: the agent is not root",
  );
  assertEquals(error.code, "invalid_argument");
});

Deno.test("guestCommand() gives guests a network namespace of their own if the system allows it", () => {
  const tools = { ...TOOLS, unshare: "/usr/bin/unshare" };
  const { program, args } = guestCommand(COMPILED, { tools, root: true, slots: 4 });
  assertEquals(
    [program, ...args].slice(0, 8).join(" "),
    "/usr/bin/nice -n 10 /usr/bin/unshare --net --ipc --uts /usr/bin/setpriv",
  );
});

Deno.test("guestCommand() limits the processes of a user that only guests have", () => {
  const limit = (user: typeof USER & { alone?: boolean }) =>
    guestCommand(COMPILED, { tools: TOOLS, root: true, slots: 4, user })
      .args.find((arg) => arg.startsWith("--nproc"));
  assertEquals(limit({ ...USER, alone: true }), `--nproc=${(4 + 9 + decodersMax()) * 64}`);
  // The kernel counts all processes of a user: those of strangers would keep guests from starting.
  assertEquals(limit({ ...USER, alone: false }), undefined);
  assertEquals(limit(USER), undefined);
});

Deno.test("guestCommand() takes basic privileges away on illumos", () => {
  const tools = { nice: "/usr/bin/nice", ppriv: "/usr/bin/ppriv" };
  const command = guestCommand(COMPILED, { tools, root: true, slots: 4, user: USER });
  assertEquals(
    [command.program, ...command.args].join(" "),
    [
      "/usr/bin/nice -n 10 /usr/bin/ppriv -e -s",
      "IL=basic,!file_link_any,!net_access,!proc_exec,!proc_fork,!proc_info,!proc_session",
      "/opt/zonewright guest",
    ].join(" "),
  );
  // No program changes the user there, so Deno does, before ppriv begins.
  assertEquals([command.uid, command.gid], [990, 991]);
  // proc_session bars signals to other sessions only. It may write until it is ready.
  assertEquals(command.ownSession, true);
  assertEquals(command.takesRest?.join(" "), "/usr/bin/ppriv -s A-file_write");
});

Deno.test("guestCommand() limits a guest on illumos by a shell, its address space on Node alone", async () => {
  const tools = { sh: "/bin/sh" };
  const place = { tools, root: false, slots: 4 };
  const { args } = guestCommand(COMPILED, place);
  assertEquals(args.slice(0, 3), ["-c", 'ulimit -n 64 && ulimit -c 0 && exec "$@"', "sh"]);
  // The shell's own answer, where the program is a shell that is asked for its limits.
  const guest = ["-c", "ulimit -n; ulimit -c; ulimit -v"];
  const walled = { guest, decoder: guest, reservedDataBytes: 1, cannotRefuse: [] };
  const self = { ...COMPILED, program: "/bin/sh", walled };
  const command = guestCommand(self, place);
  assertEquals([command.addressKibMax, guestCommand(COMPILED, place).addressKibMax], [
    ADDRESS_KIB_MAX,
    undefined,
  ]);
  const { stdout } = await new Deno.Command(command.program, { args: [...command.args] }).output();
  assertEquals(new TextDecoder().decode(stdout), `64\n0\n${ADDRESS_KIB_MAX}\n`);
});

Deno.test("findGuestTools() looks for the programs of the given system", async () => {
  for (const [os, names] of Object.entries(NAMES)) {
    const { tools, missing } = await findGuestTools({ os: os as HostSystem, root: false });
    assertEquals([...Object.keys(tools), ...missing].sort(), names);
  }
});

Deno.test("findGuestTools() does without a network of its own when the agent is not root", async () => {
  const { missing } = await findGuestTools({ os: "linux", root: false });
  assert(missing.includes("unshare"));
});

Deno.test("exitWords() distinguishes memory from other ends", () => {
  const words = (code: number, signal: Deno.Signal | null, output: string) =>
    exitWords({ success: false, code, signal }, output, 128);
  assertEquals(words(3, null, ""), { words: "ended with exit code 3", outOfMemory: false });
  assertEquals(
    words(127, null, "\nsetpriv: failed\nmore\n").words,
    "ended with exit code 127: setpriv: failed",
  );
  assertEquals(words(133, "SIGTRAP", "# Fatal JavaScript out of memory: Reached heap"), {
    words: "ran out of memory and was ended by SIGTRAP (the limit is 128 MiB)",
    outOfMemory: true,
  });
  assertEquals(words(134, "SIGABRT", "").outOfMemory, true);
  assertEquals(words(139, "SIGSEGV", "").outOfMemory, false);
});
