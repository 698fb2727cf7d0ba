// Index documents as decoders read them: what a decoder costs that dies in the middle of one.

import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { openDecoders } from "../../src/decoder/pool.ts";
import { AgentError } from "../../src/domain/error.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { openIndexReading } from "../../src/mirror/sync/index_reading.ts";
import { until } from "../support/until.ts";
import { fixtureFiles } from "./index_server.ts";
import { selfOfRun } from "../support/agent_process.ts";

Deno.test("a sync loses only the document whose decoder is killed", async () => {
  const counts = { works: 0, deaths: 0 };
  const decoders = openDecoders({ self: selfOfRun(), log: silentLog, counts });
  try {
    const { body } = (await fixtureFiles()).get("v1/index.json") ?? {};
    const document = new Uint8Array(body ?? new Uint8Array());
    const reading = openIndexReading(decoders, "https://index.example");
    const whole = await reading.list(document);
    const [pid = 0] = decoders.pids();
    // The decoder that is kept gets the document and cannot read it.
    Deno.kill(pid, "SIGSTOP");
    const lost = assertRejects(() => reading.list(document), AgentError);
    await until("the second read", () => counts.works === 2);
    Deno.kill(pid, "SIGKILL");
    const { code, message } = await lost;
    assertEquals(code, "upstream");
    assertMatch(message, /^Cannot read v1\/index\.json within .*: its process .*SIGKILL/);
    assertEquals(counts, { works: 2, deaths: 1 });
    assertEquals(await reading.list(document), whole);
  } finally {
    await decoders.close();
  }
});
