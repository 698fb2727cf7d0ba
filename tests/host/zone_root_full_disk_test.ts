// Placing media into a zone whose disk fills up meanwhile.

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { placeFile } from "../../src/host/zone_root.ts";
import { smallDiskTest, withSmallDisk } from "../support/small_disk.ts";
import { until } from "../support/until.ts";
import { namesIn, withZone } from "./zone.ts";

smallDiskTest(
  "placeFile() says how much space is left when the disk fills up while it copies",
  () =>
    withZone(({ transport, placement, zonepath, root }) =>
      withSmallDisk(zonepath, 4, async () => {
        await Deno.mkdir(root);
        // There is room at first; somebody else takes it after the first part.
        let filled = false;
        const onProgress = () => {
          if (filled) return;
          filled = true;
          Deno.writeFileSync(`${root}/other`, new Uint8Array(2 * 1024 * 1024));
        };
        const error = await assertRejects(
          () => placeFile(transport, { ...placement, onProgress }),
          AgentError,
        );
        assertEquals(error.code, "storage_full", error.message);
        assertStringIncludes(error.message, "bytes are free there");
        assertEquals(await namesIn(root), ["other"]);
        await Deno.remove(`${root}/other`);
        // The kernel gives the room of removed files back in its own time.
        const { size } = placement;
        await until("the room", async () => await transport.files.freeBytes(root) >= size);
        assertEquals((await placeFile(transport, placement)).file, "/install.iso");
      })
    ),
);
