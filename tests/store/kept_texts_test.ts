// What a host keeps of the jobs that it has shown, for the time when its database is away.

import { assertEquals } from "@std/assert";
import { KeptTexts } from "../../src/store/postgres/held_jobs.ts";

Deno.test("KeptTexts drops the oldest texts when the next does not fit", () => {
  const kept = new KeptTexts<{ readonly bytes: number }>(10);
  for (const key of ["a", "b", "c"]) kept.put(key, { bytes: 4 });
  assertEquals(["a", "b", "c"].map((key) => kept.get(key)?.text.bytes), [undefined, 4, 4]);
  kept.put("d", { bytes: 11 });
  assertEquals(kept.get("d"), undefined);
});
