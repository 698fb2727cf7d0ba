// Placing media into a zone whose disk fills up meanwhile.

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { placeFile } from "../../src/host/zone/root.ts";
import { smallDiskTest, withSmallDisk } from "../support/small_disk.ts";
import { until } from "../support/until.ts";
import { namesIn, withZone } from "./zone.ts";

smallDiskTest(
  "placeFile() reports the free space when the disk fills up while it copies",
  () =>
    withZone(({ transport, placement, zonepath, root }) =>
      withSmallDisk(zonepath, 4, async () => {
        await Deno.mkdir(root);
        // There is room at first; somebody else takes it after the first part.
        let filled = false;
        const onProgress = () => {
          if (filled) return;
          filled = true;
          try {
            Deno.writeFileSync(`${root}/other`, new Uint8Array(2 * 1024 * 1024));
          } catch {
            // It has what there was: the disk is full all the same.
          }
        };
        const error = await assertRejects(
          () => placeFile(transport, { ...placement, onProgress }),
          AgentError,
        );
        assertEquals(error.code, "storage_full", error.message);
        assertStringIncludes(error.message, " are free there");
        assertEquals(await namesIn(root), ["other"]);
        await Deno.remove(`${root}/other`);
        // The kernel gives the room of removed files back in its own time, and counts it roughly.
        const full = (error: unknown): undefined => {
          if (!(error instanceof AgentError) || error.code !== "storage_full") throw error;
        };
        const placed = await until("the room", () => placeFile(transport, placement).catch(full));
        assertEquals(placed.file, "/install.iso");
      })
    ),
);
