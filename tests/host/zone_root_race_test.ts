// Placing media into zones whose tree changes while the agent is at work.

import { assertEquals, assertRejects } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { AgentError } from "../../src/domain/error.ts";
import { placeFile, removeFile } from "../../src/host/zone_root.ts";
import { refused } from "./refused.ts";
import { digestOf, makeFifo, namesIn, type TestZone, withZone, zoneTest } from "./zone.ts";

const CANARY = "canary";

/** How often a file is placed against somebody who keeps changing the tree. */
const COPIES = Number(Deno.env.get("ZONEWRIGHT_TEST_COPIES") ?? 60);
/** Nobody waits for a FIFO: the deadline of one placement. */
const STUCK_MS = 20_000;

Deno.test("placeFile() notices that the zone's root was exchanged while it copied", async () => {
  await withZone(async ({ transport, placement, zonepath, root, folder }) => {
    await Deno.mkdir(`${folder}/outside`);
    const swaps = [
      () => Deno.mkdirSync(root),
      () => Deno.symlinkSync(`${folder}/outside`, root),
    ];
    for (const swap of swaps) {
      let swapped = false;
      const onProgress = () => {
        if (swapped) return;
        swapped = true;
        Deno.renameSync(root, `${zonepath}/moved`);
        swap();
      };
      const error = await assertRejects(
        () => placeFile(transport, { ...placement, onProgress }),
        AgentError,
      );
      assertEquals(["conflict", "forbidden"].includes(error.code), true, error.message);
      assertEquals(await namesIn(`${folder}/outside`), []);
      assertEquals((await namesIn(`${zonepath}/moved`)).includes("install.iso"), false);
      await Deno.remove(root);
      await Deno.remove(`${zonepath}/moved`, { recursive: true });
      await Deno.mkdir(root);
    }
  });
});

Deno.test("placeFile() notices that its temporary file was exchanged or linked", async () => {
  await withZone(async ({ transport, placement, zonepath, root }) => {
    const temporary = `${zonepath}/.zonewright-install.iso.part`;
    const plants = [
      () => {
        Deno.removeSync(temporary);
        Deno.writeTextFileSync(temporary, CANARY);
      },
      () => Deno.linkSync(temporary, `${root}/second_name`),
    ];
    for (const plant of plants) {
      let planted = false;
      const onProgress = () => {
        if (planted) return;
        planted = true;
        plant();
      };
      await refused(
        () => placeFile(transport, { ...placement, onProgress }),
        "conflict",
        "someone else changed the zone's root",
      );
      assertEquals((await namesIn(root)).includes("install.iso"), false);
    }
  });
});

/** Places a file again and again while an attacker is at work, and looks at what is outside. */
async function placeUnderAttack(
  { transport, placement, zonepath, root, folder }: TestZone,
  copies: number,
): Promise<void> {
  const canary = `${folder}/canaries/canary`;
  await Deno.mkdir(`${folder}/canaries`);
  await Deno.writeTextFile(canary, CANARY, { mode: 0o600 });
  // Were a medium to be placed or removed there, this one would change.
  await Deno.writeTextFile(`${folder}/canaries/install.iso`, CANARY, { mode: 0o600 });
  await makeFifo(`${folder}/fifo`);
  const bytes = new Uint8Array(30_000).fill(7);
  await Deno.writeFile(placement.source, bytes);
  const medium = { ...placement, size: bytes.length, sha256: await digestOf("SHA-256", bytes) };
  const { program, args } = attackCommand([folder, zonepath]);
  const attack = new Deno.Command(program, { args, stdin: "null" }).spawn();
  const outcomes = new Map<string, number>();
  try {
    for (let copy = 1; copy <= copies; copy++) {
      const late = new AbortController();
      const timer = setTimeout(() => late.abort(), STUCK_MS);
      const outcome = await placeFile(transport, { ...medium, signal: late.signal })
        .then(() => "placed", (error: unknown) => error);
      await removeFile(transport, medium).catch(assertToldApart);
      clearTimeout(timer);
      assertEquals(late.signal.aborted, false, "it was held up");
      if (outcome !== "placed") assertToldApart(outcome);
      const word = outcome instanceof AgentError ? outcome.code : "placed";
      outcomes.set(word, (outcomes.get(word) ?? 0) + 1);
    }
  } finally {
    await Deno.writeTextFile(`${folder}/stop`, "");
    await attack.status;
  }
  assertEquals(await namesIn(`${folder}/canaries`), ["canary", "install.iso"]);
  for (const path of [canary, `${folder}/canaries/install.iso`]) {
    assertEquals(await Deno.readTextFile(path), CANARY);
    assertEquals(((await Deno.lstat(path)).mode ?? 0) & 0o777, 0o600);
  }
  assertEquals(await namesIn(folder), ["canaries", "fifo", "medium.iso", "stop", "zones"]);
  await placeFile(transport, medium);
  assertEquals(await namesIn(root), ["install.iso"]);
  assertEquals(await namesIn(zonepath), ["root"]);
  if (copies > 1000) console.log(Object.fromEntries(outcomes));
}

function attackCommand(words: readonly string[]): { program: string; args: string[] } {
  const path = fromFileUrl(new URL("attack.ts", import.meta.url));
  const args = ["run", "--quiet", "--no-check", "--allow-all", path, ...words];
  return { program: Deno.execPath(), args };
}

function assertToldApart(error: unknown): void {
  assertEquals(error instanceof AgentError, true, String(error));
}

zoneTest(
  "placeFile() writes nowhere else and never blocks while the tree changes",
  (zone) => placeUnderAttack(zone, zone.transport.kind === "ssh" ? COPIES / 5 : COPIES),
);
