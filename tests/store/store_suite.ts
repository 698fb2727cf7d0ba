// What every implementation of the store must do. A part of it knows nothing of the implementation:
// not where the data are, not that callers are one process, not in which order calls that are made
// together are carried out.

import type { Store } from "../../src/store/store.ts";
import { attemptTests } from "./attempt_suite.ts";
import { callbackTests } from "./callback_suite.ts";
import { cancelTests } from "./cancel_suite.ts";
import { claimTests } from "./claim_suite.ts";
import { creationTests } from "./creation_suite.ts";
import { fairnessTests } from "./fairness_suite.ts";
import { hostTests } from "./host_suite.ts";
import { idempotencyTests } from "./idempotency_suite.ts";
import { imageTests } from "./image_suite.ts";
import { indexTests } from "./index_suite.ts";
import { infoTests } from "./info_suite.ts";
import { leaseTests } from "./lease_suite.ts";
import { listTests } from "./list_suite.ts";
import { lockTests } from "./lock_suite.ts";
import { lostAnswerTests } from "./lost_answer_suite.ts";
import { machineClaimTests } from "./machine_claim_suite.ts";
import { machineHistoryTests } from "./machine_history_suite.ts";
import { measureTests } from "./measure_suite.ts";
import { mediaTests } from "./media_suite.ts";
import { orderTests } from "./order_suite.ts";
import { paramsTests } from "./params_suite.ts";
import { placeTests } from "./place_suite.ts";
import { pruneTests } from "./prune_suite.ts";
import { readyTests } from "./ready_suite.ts";
import { recordTests } from "./record_suite.ts";
import { resumeTests } from "./resume_suite.ts";
import { retryTests } from "./retry_suite.ts";
import { statsTests } from "./stats_suite.ts";
import { successorTests } from "./successor_suite.ts";
import { summaryTests } from "./summary_suite.ts";
import { textTests } from "./text_suite.ts";
import { togetherTests } from "./together_suite.ts";
import { workflowTests } from "./workflow_suite.ts";

/**
 * Registers the suite for one kind of store.
 * @param open opens an empty store
 * @param missing the program that this kind needs, when it is not installed: its tests are skipped by name
 */
export function storeSuite(kind: string, open: () => Promise<Store>, missing?: string): void {
  const test = (name: string, run: (store: Store) => Promise<void>) =>
    Deno.test({
      name: `${kind}: ${name}`,
      ignore: missing !== undefined && Deno.env.get("ZONEWRIGHT_TEST_REQUIRE") !== "all",
      fn: async () => {
        const store = await open();
        try {
          await run(store);
        } finally {
          await store.close();
        }
      },
    });
  workflowTests(test);
  creationTests(test);
  idempotencyTests(test);
  lockTests(test);
  claimTests(test);
  fairnessTests(test);
  readyTests(test);
  leaseTests(test);
  hostTests(test);
  placeTests(test);
  recordTests(test);
  lostAnswerTests(test);
  togetherTests(test);
  successorTests(test);
  retryTests(test);
  cancelTests(test);
  resumeTests(test);
  callbackTests(test);
  attemptTests(test);
  infoTests(test);
  listTests(test);
  orderTests(test);
  paramsTests(test);
  textTests(test);
  statsTests(test);
  summaryTests(test);
  pruneTests(test);
  indexTests(test);
  mediaTests(test);
  machineClaimTests(test);
  machineHistoryTests(test);
  measureTests(test);
  imageTests(test);
}
