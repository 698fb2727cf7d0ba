// The runner against its model: whatever happens, in whatever order, and wherever the agent dies.

import fc from "fast-check";
import { openClockedStore } from "../support/clocked_store.ts";
import { anySequence } from "./model/any_sequence.ts";
import { play } from "./model/player.ts";

/** Sequences of an ordinary run; the long run names another number. */
const SEQUENCES = Number(Deno.env.get("ZONEWRIGHT_TEST_SEQUENCES") ?? 500);
const SEED = Deno.env.get("ZONEWRIGHT_TEST_SEED");

Deno.test(`jobs end as the model predicts, in ${SEQUENCES} sequences of events`, async () => {
  await fc.assert(
    fc.asyncProperty(anySequence, async (sequence) => {
      const store = await openClockedStore();
      try {
        await play(sequence, store);
      } finally {
        await store.close();
      }
    }),
    { numRuns: SEQUENCES, ...(SEED === undefined ? {} : { seed: Number(SEED) }) },
  );
});
