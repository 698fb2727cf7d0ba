// Placing media into zones whose tree changes while the agent is at work.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { AgentError } from "../../src/domain/error.ts";
import { placeFile, removeFile } from "../../src/host/zone/root.ts";
import { mapLimited } from "../../src/runtime/run.ts";
import { refused } from "./refused.ts";
import { digestOf, makeFifo, namesIn, type TestZone, withZone, zoneTest } from "./zone.ts";

const CANARY = "canary";

/** How often a file is placed against somebody who keeps changing the tree. */
const COPIES = Number(Deno.env.get("ZONEWRIGHT_TEST_COPIES") ?? 60);
/** Zones at one time, each with an attacker of its own: a copy mostly waits for its programs. */
const ZONES = 3;
/** Over ssh a copy takes as long as a hundred here, and its last steps are the same. */
const FAR_COPIES = Math.max(12, Math.ceil(COPIES / 100));
/** One copy of so many is removed again before the next; the others are replaced by it. */
const REMOVED_EVERY = 5;
const ATTEMPTS_PER_COPY = 50;
/** Copies in one zone after which it is certain that some came through and some were refused. */
const TELLING = 500;
/** Nobody waits for a FIFO: the deadline of one placement. */
const STUCK_MS = 90_000;

Deno.test("placeFile() notices a zone root replaced while it copied", async () => {
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

Deno.test("placeFile() notices a temporary file that was replaced or linked", async () => {
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
        "the zone's root was changed by another process",
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
  // Two in turn: one that is there already would not be copied.
  const media = await Promise.all([30_000, 31_000].map(async (size) => {
    const bytes = new Uint8Array(size).fill(7);
    const source = `${folder}/medium-${size}.iso`;
    await Deno.writeFile(source, bytes);
    return { ...placement, source, size, sha256: await digestOf("SHA-256", bytes) };
  }));
  const { program, args } = attackCommand([folder, zonepath]);
  const attack = new Deno.Command(program, { args, stdin: "null" }).spawn();
  const outcomes = new Map<string, number>();
  try {
    for (let copy = 1, begun = 0; begun < copies; copy++) {
      const medium = media[copy % media.length] ?? placement;
      const late = new AbortController();
      const timer = setTimeout(() => late.abort(), STUCK_MS);
      const outcome = await placeFile(transport, { ...medium, signal: late.signal })
        .then(() => "placed", (error: unknown) => error);
      if (copy % REMOVED_EVERY === 0) await removeFile(transport, medium).catch(assertToldApart);
      clearTimeout(timer);
      assertEquals(late.signal.aborted, false, "it was held up");
      if (outcome !== "placed") assertToldApart(outcome);
      const word = outcome instanceof AgentError ? outcome.code : "placed";
      outcomes.set(word, (outcomes.get(word) ?? 0) + 1);
      // Where the root is missing at the first look nothing is begun, and nothing is shown.
      if (word !== "not_found") begun += 1;
      assert(copy < copies * ATTEMPTS_PER_COPY, "the root is hardly ever there");
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
  assertEquals(await namesIn(folder), [
    ...["canaries", "fifo", "medium-30000.iso", "medium-31000.iso", "medium.iso", "stop", "zones"],
  ]);
  await placeFile(transport, placement);
  assertEquals(await namesIn(root), ["install.iso"]);
  assertEquals(await namesIn(zonepath), ["root"]);
  if (copies < TELLING) return;
  const placed = outcomes.get("placed") ?? 0;
  const reported = JSON.stringify(Object.fromEntries(outcomes));
  assert(placed > 0 && placed < copies, `Nothing was shown by ${reported}`);
  console.log(reported);
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
  async (zone) => {
    if (zone.transport.kind === "ssh") return await placeUnderAttack(zone, FAR_COPIES);
    const copies = Math.ceil(COPIES / ZONES);
    const zones = Array.from({ length: ZONES });
    await mapLimited(
      zones,
      ZONES,
      () => withZone((own) => placeUnderAttack(own, copies)),
    );
  },
);
