// The decoders of tests that start no agent: real processes, which nobody starts before the first work.

import { type Decoders, openDecoders } from "../../src/decoder/pool.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { selfOfRun } from "./agent_process.ts";

/** Opens them; the test closes them. */
export function openTestDecoders(): Decoders {
  return openDecoders({ self: selfOfRun(), log: silentLog });
}
