// Placing media into zones whose tree changes while the agent is at work.

import { assertEquals, assertRejects } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { placeFile } from "../../src/host/zone_root.ts";
import { refused } from "./refused.ts";
import { digestOf, namesIn, withZone } from "./zone.ts";

const CANARY = "canary";

/** How often a file is placed against somebody who keeps changing what has its name. */
const ATTEMPTS = 100;

/** What such a somebody does, until a file named stop appears. */
const ATTACK = `
while [ ! -e "$folder/stop" ]; do
  for name in install.iso .zonewright-install.iso.part; do
    ln -sf "$folder/target" "$name"; rm -f "$name"
    mkfifo "$name"; rm -f "$name"
    ln -s "$folder/dangling" "$name"; rm -f "$name"
    ln "$folder/target" "$name"; rm -f "$name"
  done
done 2>/dev/null
`;

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
  await withZone(async ({ transport, placement, root }) => {
    const temporary = `${root}/.zonewright-install.iso.part`;
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

Deno.test("placeFile() writes nowhere else and never blocks while its names change", async () => {
  await withZone(async ({ transport, placement, root, folder }) => {
    await Deno.writeTextFile(`${folder}/target`, CANARY, { mode: 0o600 });
    const bytes = new Uint8Array(30_000).fill(7);
    await Deno.writeFile(placement.source, bytes);
    const sha256 = await digestOf("SHA-256", bytes);
    const medium = { ...placement, size: bytes.length, sha256 };
    const attack = new Deno.Command("/bin/sh", {
      args: ["-c", ATTACK],
      env: { folder },
      cwd: root,
    }).spawn();
    try {
      for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
        const startedAt = performance.now();
        const outcome = await placeFile(transport, medium).catch((error: unknown) => error);
        if (outcome instanceof Error) {
          assertEquals(outcome instanceof AgentError, true, String(outcome));
        }
        assertEquals(performance.now() - startedAt < 10_000, true);
      }
    } finally {
      await Deno.writeTextFile(`${folder}/stop`, "");
      await attack.status;
    }
    assertEquals(await Deno.readTextFile(`${folder}/target`), CANARY);
    assertEquals(((await Deno.lstat(`${folder}/target`)).mode ?? 0) & 0o777, 0o600);
    assertEquals(await namesIn(folder), ["medium.iso", "stop", "target", "zones"]);
    await placeFile(transport, medium);
    assertEquals(await namesIn(root), ["install.iso"]);
  });
});
