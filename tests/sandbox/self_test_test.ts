// The self-test: that a guest which kept a permission is found out and given no task, and what the
// operator learns of one that is sound.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { DecoderProcess } from "../../src/decoder/process.ts";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import { type SelfCommand } from "../../src/runtime/executable.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { GUEST_CHECKS, GUEST_PERMISSIONS, type GuestCheck } from "../../src/wall/protocol.ts";
import { takeLanguage } from "../../src/wall/language.ts";
import { languageCheck } from "../../src/guest/primordials.ts";
import { openRealmMaker } from "../../src/guest/realm/context.ts";
import { realmCheck } from "../../src/guest/realm/probe.ts";
import { openCompiler } from "../../src/guest/realm/script.ts";
import {
  decoderCommand,
  findGuestTools,
  type GuestPlace,
} from "../../src/sandbox/guest_command.ts";
import { testGuest } from "../../src/agent/walls.ts";
import { processChecks } from "../../src/sandbox/wall_checks.ts";
import { withFolder } from "../support/until.ts";
import { withPool } from "./bodies.ts";
import { selfOfRun } from "../support/agent_process.ts";

/** Found on a host that has all the programs; where one is missing the check fails, and says so. */
const OUTSIDE = ["user", "privileges", "capabilities", "limits", "network", "ipc", "uts"];

/** A guest that keeps one permission; `none` keeps none. */
function keeping(permission: string): SelfCommand {
  const script = fromFileUrl(new URL("open_guest.ts", import.meta.url));
  const config = fromFileUrl(new URL("../../deno.json", import.meta.url));
  const args = ["run", "--quiet", "--cached-only", "--config", config, "-A", script, permission];
  const cache = Deno.env.get("DENO_DIR");
  const env = { NO_COLOR: "1", ...(cache === undefined ? {} : { DENO_DIR: cache }) };
  return { program: Deno.execPath(), args, env, compiled: false };
}

async function check(self: SelfCommand): Promise<GuestCheck[]> {
  return await withFolder(async (runtimeDir) => {
    const checks = await testGuest({ self, runtimeDir, limits: DEFAULT_LIMITS, log: silentLog });
    assertEquals([...Deno.readDirSync(runtimeDir)], []);
    return checks;
  });
}

Deno.test("testGuest() reports every permission that a guest kept", async (t) => {
  for (const permission of ["none", ...GUEST_PERMISSIONS]) {
    await t.step(permission, async () => {
      const checks = await check(keeping(permission));
      const open = checks.filter(({ check, ok }) => !ok && !OUTSIDE.includes(check));
      assertEquals(open.map(({ check }) => check), permission === "none" ? [] : [permission]);
      assert(open.every(({ detail }) => /^(can|has) /.test(detail)), JSON.stringify(open));
    });
  }
});

Deno.test("a guest that kept a permission is never given a task", async (t) => {
  for (const permission of GUEST_PERMISSIONS) {
    await t.step(permission, async () => {
      await withPool(async (run) => {
        const outcome = await run("(job, cb) => cb(null, `ran`)");
        assert(outcome.kind === "not_started", JSON.stringify(outcome));
        assertMatch(outcome.why, /its process is not closed: it (can|has) /);
      }, { self: keeping(permission) });
    });
  }
});

Deno.test("testGuest() inspects the process of a guest from outside", async () => {
  const checks = await check(selfOfRun());
  const inside = ["start", ...GUEST_CHECKS];
  const reported = checks.slice(0, inside.length);
  assertEquals(reported.map(({ check }) => check), inside);
  assert(reported.every(({ ok }) => ok), JSON.stringify(checks));
  const outside = Object.fromEntries(checks.slice(inside.length).map((one) => [one.check, one.ok]));
  if ("process" in outside) return;
  assertEquals(Object.keys(outside), OUTSIDE);
  // From source, root's guests stay root's: nobody may not read a source tree.
  assertEquals(outside.user, Deno.uid() !== 0);
  assertEquals(outside.capabilities, true);
});

const root = Deno.uid() === 0;
const { tools, missing } = await findGuestTools();
const user = { uid: 65534, gid: 65534 };

/** The checks of a process from outside that fail when it is started with these programs and this user alone. */
async function failedOutside(place: Pick<GuestPlace, "tools" | "user">): Promise<string[]> {
  const whole = { ...place, root, slots: 1 };
  const command = decoderCommand(selfOfRun(), whole);
  const decoder = new DecoderProcess(command, silentLog, () => {});
  try {
    await decoder.ready;
    const checks = await processChecks(decoder.pid, whole, command);
    return checks.filter(({ ok }) => !ok).map(({ check }) => check);
  } finally {
    decoder.kill("was ended after its test");
    await decoder.reaped;
  }
}

Deno.test({
  name:
    "each wall of the kernel that is missing fails its check, and no other [needs unshare as root]",
  ignore: Deno.env.get("ZONEWRIGHT_TEST_REQUIRE") !== "all" && (!root || missing.length > 0),
  fn: async () => {
    const { unshare: _unshare, ...shared } = tools;
    const { setpriv: _setpriv, ...open } = shared;
    const { prlimit: _prlimit, ...unlimited } = tools;
    const { prlimit: _limits, ...bare } = open;
    const namespaces = ["network", "ipc", "uts"];
    assertEquals(await failedOutside({ tools, user }), []);
    assertEquals(await failedOutside({ tools }), ["user"]);
    assertEquals(await failedOutside({ tools: unlimited, user }), ["limits"]);
    assertEquals(await failedOutside({ tools: shared, user }), namespaces);
    // Another user may not unshare: setpriv would have changed to it after that.
    assertEquals(await failedOutside({ tools: open, user }), ["privileges", ...namespaces]);
    assertEquals(await failedOutside({ tools: bare }), OUTSIDE);
  },
});

Deno.test("testGuest() says why a guest does not start", async () => {
  const self = { program: "/nothing/here", args: [], env: {}, compiled: true };
  const [start, ...rest] = await check(self);
  assertEquals([start?.check, start?.ok, rest], ["start", false, []]);
  assertMatch(start?.detail ?? "", /^Cannot start a guest: its process .*nothing\/here/);
});

Deno.test("realmCheck() finds an object of another realm, and an import that is not refused", async () => {
  const language = takeLanguage();
  const check = (fresh: boolean, foreign?: object) => {
    const realms = openRealmMaker({ limits: DEFAULT_LIMITS, language, fresh, foreign });
    const { sharedNames } = realms;
    const compiler = openCompiler(language, { imports: foreign !== undefined, sharedNames });
    return realmCheck({ realms, compiler, language });
  };
  for (const fresh of [true, false]) {
    const sound = { check: "realm", ok: true, detail: "shares nothing with another" };
    assertEquals(await check(fresh), sound);
  }
  const { ok, detail } = await check(true, {});
  assertEquals(ok, false);
  assertMatch(detail, /^has in its realm: .*the answer of|^has in its realm: the global object/);
});

Deno.test("languageCheck() finds what is left of the platform", () => {
  const { ok, detail } = languageCheck();
  assertEquals(ok, false);
  assertMatch(detail, /^has .* beside the language$/);
});
