// The command line of a guest, for each kind of host and agent.

import { assertEquals, assertThrows } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { SelfCommand } from "../../src/executable.ts";
import { guestCommand } from "../../src/sandbox/guest_command.ts";
import { exitWords } from "../../src/sandbox/guest_process.ts";

const COMPILED: SelfCommand = { program: "/opt/zonewright", args: [], env: {}, compiled: true };
const SOURCE: SelfCommand = {
  program: "/opt/deno",
  args: ["run", "--quiet", "main.ts"],
  env: { DENO_DIR: "/cache" },
  compiled: false,
};
const TOOLS = { setpriv: "/usr/bin/setpriv", prlimit: "/usr/bin/prlimit", nice: "/usr/bin/nice" };
const USER = { uid: 990, gid: 991 };

Deno.test("guestCommand() goes through the tools of the host and gives up everything", () => {
  const { program, args, uid } = guestCommand(COMPILED, { tools: TOOLS, root: true, user: USER });
  assertEquals(
    [program, ...args].join(" "),
    [
      "/usr/bin/nice -n 10",
      "/usr/bin/setpriv --no-new-privs --pdeathsig=KILL --clear-groups --bounding-set=-all",
      "--inh-caps=-all --reuid=990 --regid=991",
      "/usr/bin/prlimit --data=950000000 --nofile=64 --core=0 --fsize=0",
      "/opt/zonewright guest",
    ].join(" "),
  );
  assertEquals(uid, undefined);
});

Deno.test("guestCommand() keeps the user id when none is given", () => {
  const { args } = guestCommand(COMPILED, { tools: TOOLS, root: false });
  assertEquals(args.some((arg) => /reuid|regid|clear-groups|bounding/.test(arg)), false);
});

Deno.test("guestCommand() starts the program itself where the host has no tools", () => {
  const command = guestCommand(COMPILED, { tools: {}, root: true, user: USER });
  assertEquals(command, {
    program: "/opt/zonewright",
    args: ["guest"],
    env: {},
    ...USER,
    heapMib: 256,
  });
});

Deno.test("guestCommand() adds the options of Deno when the program runs from source", () => {
  const { program, args, env } = guestCommand(SOURCE, { tools: {}, root: false });
  assertEquals([program, ...args], [
    "/opt/deno",
    "run",
    "--v8-flags=--max-old-space-size=128,--disallow-code-generation-from-strings," +
    "--heap-growing-percent=200",
    "--no-npm",
    "--no-remote",
    "--no-code-cache",
    "--quiet",
    "main.ts",
    "guest",
  ]);
  assertEquals(env, { DENO_DIR: "/cache" });
  const limited = guestCommand(SOURCE, { tools: TOOLS, root: false });
  assertEquals(limited.args.includes("--fsize=0"), false);
});

Deno.test("guestCommand() refuses another user when the agent is not root", () => {
  const error = assertThrows(
    () => guestCommand(COMPILED, { tools: TOOLS, root: false, user: USER }),
    AgentError,
    "Cannot run guests as user 990: the agent is not root",
  );
  assertEquals(error.code, "invalid_argument");
});

Deno.test("exitWords() tells memory from other ends", () => {
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
