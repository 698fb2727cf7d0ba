// Which user guests run as: every way to say it, and every reason to refuse.

import { assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path";
import { AgentError } from "../../src/domain/error.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { findGuestUser, type GuestUserPlace } from "../../src/sandbox/user.ts";
import { withFolder } from "../support/until.ts";

const USERS = [
  "root:x:0:0:root:/root:/bin/sh",
  "broken line",
  "nobody:x:65534:65533::/:/bin/false",
  "guests:x:990:991::/:/bin/false",
].join("\n");

/** An agent that is root, with a program that everybody may run. */
async function withPlace(run: (place: GuestUserPlace, folder: string) => Promise<void>) {
  await withFolder(async (folder) => {
    await Deno.chmod(folder, 0o755);
    const usersFile = join(folder, "passwd");
    await Deno.writeTextFile(usersFile, USERS);
    const program = join(folder, "zonewright");
    await Deno.writeTextFile(program, "");
    await Deno.chmod(program, 0o755);
    const self = { program, args: [], env: {}, compiled: true };
    await run({ self, os: "linux", root: true, log: silentLog, usersFile }, folder);
  });
}

async function assertRefused(setting: string, place: GuestUserPlace, why: string): Promise<void> {
  const words = `Cannot run guests as user ${setting}: ${why}`;
  const error = await assertRejects(() => findGuestUser(setting, place), AgentError, words);
  assertEquals(error.code, "invalid_argument");
}

Deno.test("findGuestUser() finds the user nobody in the host's list of users", async () => {
  await withPlace(async (place) => {
    assertEquals(await findGuestUser("auto", place), { uid: 65_534, gid: 65_533 });
    const unnamed = { ...place, usersFile: "/nothing/here" };
    assertEquals(await findGuestUser("auto", unnamed), { uid: 65_534, gid: 65_534 });
    const illumos = { ...unnamed, os: "illumos" } as const;
    assertEquals(await findGuestUser("auto", illumos), { uid: 60_001, gid: 60_001 });
  });
});

Deno.test("findGuestUser() leaves the agent's own user where another could not run guests", async () => {
  await withPlace(async (place, folder) => {
    assertEquals(await findGuestUser("auto", { ...place, root: false }), undefined);
    const source = { ...place.self, compiled: false };
    assertEquals(await findGuestUser("auto", { ...place, self: source }), undefined);
    await Deno.chmod(folder, 0o700);
    assertEquals(await findGuestUser("auto", place), undefined);
    assertEquals(await findGuestUser("none", place), undefined);
  });
});

Deno.test("findGuestUser() refuses a user that cannot reach the file that the runtime runs", async () => {
  await withPlace(async (place, folder) => {
    const below = join(folder, "root");
    await Deno.mkdir(below, { mode: 0o700 });
    const file = join(below, "zonewright.mjs");
    await Deno.writeTextFile(file, "", { mode: 0o644 });
    const onNode = { ...place, self: { ...place.self, file } };
    assertEquals(await findGuestUser("auto", onNode), undefined);
    await assertRefused("guests", onNode, `it cannot reach the program ${file}`);
    await Deno.chmod(below, 0o755);
    assertEquals(await findGuestUser("guests", onNode), { uid: 990, gid: 991, alone: true });
    // It is read, not executed.
    await Deno.chmod(file, 0o700);
    assertEquals(await findGuestUser("auto", onNode), undefined);
  });
});

Deno.test("findGuestUser() takes a user by name or by numbers", async () => {
  await withPlace(async (place) => {
    const user = { uid: 990, gid: 991, alone: true };
    assertEquals(await findGuestUser("guests", place), user);
    assertEquals(await findGuestUser("990:991", place), user);
    // Others use it too, so that its processes cannot be counted.
    assertEquals((await findGuestUser("nobody", place))?.alone, false);
    assertEquals((await findGuestUser("65534:65534", place))?.alone, false);
    assertEquals((await findGuestUser("60001:1", place))?.alone, false);
  });
});

Deno.test("findGuestUser() refuses a user that guests cannot run as", async () => {
  await withPlace(async (place, folder) => {
    await assertRefused("ghosts", place, `${place.usersFile} does not name it`);
    await assertRefused("root", place, "it is root");
    await assertRefused("0:100", place, "it is root");
    await assertRefused("guests", { ...place, root: false }, "the agent is not root");
    await Deno.chmod(folder, 0o700);
    await assertRefused("guests", place, `it cannot reach the program ${place.self.program}`);
  });
});
