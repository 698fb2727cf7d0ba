// The types by which the console reads answers beside the agent's description, and the size of what a browser
// loads.

import { assert, assertEquals } from "@std/assert";
import { brotliDecompressSync, gzipSync } from "node:zlib";
import { packUi } from "../../vendors/ui.ts";
import type { PackedUi } from "../../src/http/routes/ui.ts";
import { schemaText } from "./write_schema.ts";

/** Bytes that a browser loads before the first page is drawn, compressed by gzip. */
const FIRST_BYTES_MAX = 70_000;

Deno.test("the console's types are those of the agent's description", async () => {
  const file = new URL("../../src/ui/client/schema.ts", import.meta.url);
  const written = await Deno.readTextFile(file);
  assertEquals(written, await schemaText(), "write it: deno run -A tests/ui/write_schema.ts");
});

Deno.test("the console is small, and the same sources make the same bytes", async () => {
  const [first, second] = [await Deno.makeTempFile(), await Deno.makeTempFile()];
  try {
    await packUi(first);
    await packUi(second);
    const text = await Deno.readTextFile(first);
    assertEquals(await Deno.readTextFile(second), text);
    // packUi() has written it.
    const { script, style, files } = JSON.parse(text) as PackedUi;
    const bytes = [script, style].map((name) =>
      gzipSync(brotliDecompressSync(Uint8Array.fromBase64(files[name]?.br ?? ""))).byteLength
    );
    const total = bytes.reduce((sum, one) => sum + one, 0);
    assert(total < FIRST_BYTES_MAX, `${total} bytes`);
  } finally {
    await Deno.remove(first);
    await Deno.remove(second);
  }
});
