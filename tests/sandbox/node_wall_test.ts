// The wall of a guest on Node: closed, a guest passes every check that its Node can pass; with one door opened
// behind the adapter's back, the check of that door fails, and no other.

import { assert, assertEquals } from "@std/assert";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { openGuestSocket } from "../../src/sandbox/guest_socket.ts";
import { guestCommand } from "../../src/sandbox/guest_command.ts";
import { GuestProcess } from "../../src/sandbox/process.ts";
import { GUEST_CHECKS, type GuestCheck } from "../../src/wall/protocol.ts";
import { NO_SQLITE } from "../../vendors/node/options.ts";
import { nodeProgram, type Program } from "../support/agent_process.ts";
import { eachNode } from "../support/each_node.ts";
import { withDeadline, withFolder } from "../support/until.ts";

const REPORT_MS = 60_000;

/** An option that runs this before the program. */
function preload(source: string): string {
  return `--import=data:text/javascript,${encodeURIComponent(source)}`;
}

/** Keeps a newer Node from giving up this permission; an older one cannot give up any. */
function keeping(scope: string): string {
  return preload(`
    const { permission } = process;
    const drop = permission.drop;
    if (drop) permission.drop = (one) => one === "${scope}" ? undefined : drop.call(permission, one);
  `);
}

/** Each door of the runtime that a guest tries, and the options that open it behind the adapter's back. */
const DOORS: readonly (readonly [check: string, ...options: string[]])[] = [
  ["read", "--allow-fs-read=*", keeping("fs.read")],
  ["write", "--allow-fs-write=*", keeping("fs.write")],
  ["net", keeping("net")],
  [
    "env",
    preload(`
      const kept = { deleteProperty: () => true };
      Object.defineProperty(process, "env", { value: new Proxy({ DOOR: "open" }, kept) });
    `),
  ],
  ["run", "--allow-child-process", keeping("child")],
  ["ffi", "--allow-addons", keeping("addon")],
  [
    "import",
    preload(`
      import { registerHooks } from "node:module";
      const remote = { format: "module", source: "", shortCircuit: true };
      registerHooks({
        resolve: (name, context, next) =>
          name.startsWith("https:") ? { url: name, shortCircuit: true } : next(name, context),
        load: (url, context, next) => url.startsWith("https:") ? remote : next(url, context),
      });
    `),
  ],
  [
    "realm",
    preload(`
      import vm from "node:vm";
      import { syncBuiltinESMExports } from "node:module";
      const own = vm.createContext;
      vm.createContext = (global, options) =>
        own(Object.defineProperty(global, "leak", { value: [] }), options);
      syncBuiltinESMExports();
    `),
  ],
  ["primordials", preload(`Object.defineProperty(globalThis, "leak", { value: 1 });`)],
];

/** Names of the checks that failed, of those that a guest reports. */
function failed(checks: readonly GuestCheck[]): string[] {
  return checks.filter(({ check, ok }) => !ok && GUEST_CHECKS.some((one) => one === check))
    .map(({ check }) => check);
}

/** What fails in a guest that nothing but its Node shuts in. */
async function openWithoutKernel({ name: _name, ...program }: Program): Promise<string[]> {
  return await withFolder(async (runtimeDir) => {
    const self = { ...program, compiled: true };
    const command = guestCommand(self, { tools: {}, root: false, slots: 1 }, DEFAULT_LIMITS);
    const guestSocket = await openGuestSocket({ runtimeDir });
    const token = crypto.randomUUID();
    const guest = new GuestProcess(command, guestSocket.path, token, silentLog);
    try {
      const { promise, resolve, reject } = Promise.withResolvers<readonly GuestCheck[]>();
      guest.listen({
        message: (message) => message.type === "ready" ? resolve(message.checks) : undefined,
        lost: ({ words }) => reject(new Error(`its process ${words}`)),
      });
      guestSocket.expect(token, guest);
      return failed(await withDeadline(promise, REPORT_MS, () => "the report of a guest"));
    } finally {
      guest.kill("was ended after its test");
      await guest.reaped;
      await guestSocket.close();
    }
  });
}

eachNode("each check of a guest fails when its door is opened, and no other does", async (node) => {
  const program = nodeProgram(node.program);
  assert(program?.walled !== undefined, "Cannot run: dist/zonewright.mjs was not built");
  const { walled } = program;
  const openWith = (guest: readonly string[]) =>
    openWithoutKernel({ ...program, walled: { ...walled, guest } });
  // What no Node refuses is open without a hand on it, and the checks say so.
  const always = GUEST_CHECKS.filter((check) => walled.cannotRefuse.includes(check));
  assertEquals(await openWithoutKernel(program), always);
  for (const [check, ...options] of DOORS) {
    const expected = GUEST_CHECKS.filter((one) => one === check || always.includes(one));
    assertEquals([check, await openWith([...options, ...walled.guest])], [check, expected]);
  }
  const tried = new Set([...DOORS.map(([check]) => check), ...always]);
  assertEquals(GUEST_CHECKS.filter((check) => !tried.has(check)), []);
  const expected = GUEST_CHECKS.filter((one) => one === "read" || always.includes(one));
  assertEquals(await openWith(walled.guest.filter((option) => option !== NO_SQLITE)), expected);
});

eachNode("a guest ends when it changes a flag of V8, which could write a file", async (node) => {
  const program = nodeProgram(node.program);
  assert(program?.walled !== undefined, "Cannot run: dist/zonewright.mjs was not built");
  const options = program.walled.guest.slice(0, -1);
  await withFolder(async (folder) => {
    const script = `${folder}/flags.mjs`;
    const written = `${folder}/written`;
    const flags = [
      "--redirect-code-traces",
      `--redirect-code-traces-to=${written}`,
      "--print-code",
    ];
    const calls = flags.map((flag) => `v8.setFlagsFromString(${JSON.stringify(flag)});`);
    const hot = "const f = (x) => x + 1; const end = performance.now() + 1000;\n" +
      "for (let i = 0; performance.now() < end; i++) for (let j = 0; j < 1e5; j++) f(i);";
    const source = ['import v8 from "node:v8";', ...calls, hot].join("\n");
    await Deno.writeTextFile(script, source);
    const run = (args: readonly string[]) =>
      new Deno.Command(program.program, { args: [...args, script], clearEnv: true }).output();
    const allowed = [...options, `--allow-fs-read=${script}`];
    const { success, signal } = await run(allowed);
    assertEquals([success, signal], [false, "SIGTRAP"]);
    const isWritten = () => Deno.stat(written).then(() => true, () => false);
    assertEquals(await isWritten(), false);
    // Without the option it is written, whatever the permission model says.
    assertEquals((await run(allowed.filter((one) => !/freeze/.test(one)))).success, true);
    assertEquals(await isWritten(), true);
  });
});
