// Lines about the requests of one caller: by themselves, and counted together.

import { assertEquals, assertMatch } from "@std/assert";
import { CALLER_LINES_MAX, openAccessLines } from "../../src/http/request/access_lines.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import { type LogFields, openLog } from "../../src/metrics/log.ts";
import { withHttpAgent } from "./http_agent.ts";

const ALICE = { who: "token:alice", peer: "192.0.2.1" };
const BOB = { who: "token:bob", peer: "192.0.2.1" };
const MINUTE_MS = 60_000;
const START = "2026-01-01T12:00:00.000Z";

function open() {
  const clock = { ms: 0 };
  const now = () => instantAfter(START, clock.ms);
  const written: LogFields[] = [];
  const leftOut = { caller: 0, budget: 0, reader: 0 };
  const log = openLog({
    level: "info",
    format: "json",
    now,
    write: (line) => written.push(JSON.parse(line)),
    leftOut,
  });
  return { clock, written, leftOut, lines: openAccessLines(log, now, () => clock.ms) };
}

Deno.test("lines of a caller beyond a rate become one line, with their number and statuses", () => {
  const { clock, written, leftOut, lines } = open();
  let alone = 0;
  for (let at = 0; at < CALLER_LINES_MAX + 10; at++) {
    alone += lines.answered(ALICE, at % 2 === 0 ? 201 : 409) ? 1 : 0;
  }
  assertEquals(lines.audited(ALICE, "POST /jobs"), false);
  assertEquals(lines.audited(ALICE, "DELETE /workflows/:uuid"), false);
  assertEquals(lines.audited(ALICE, "POST /jobs"), false);
  // Another caller has lines of its own.
  assertEquals([alone, lines.answered(BOB, 201)], [CALLER_LINES_MAX, true]);
  assertEquals([written.length, leftOut.caller], [0, 13]);
  clock.ms += MINUTE_MS;
  assertEquals(lines.answered(ALICE, 201), true);
  assertEquals(written.map(({ ts: _, ...line }) => line), [{
    level: "info",
    msg: "requests counted together",
    ...ALICE,
    requests: 10,
    statuses: "201: 5, 409: 5",
    calls_audited: 3,
    calls: "POST /jobs: 2, DELETE /workflows/:uuid: 1",
    since: START,
    seconds: 60,
  }]);
  lines.flush();
});

Deno.test("kinds of calls are counted separately up to a limit, and together beyond it", () => {
  const { lines, written } = open();
  for (let at = 0; at < CALLER_LINES_MAX; at++) lines.audited(ALICE, "POST /jobs");
  for (let at = 0; at < 40; at++) lines.audited(ALICE, `PUT /${at}`);
  lines.flush();
  const [line] = written;
  assertEquals(line?.calls_audited, 40);
  assertMatch(String(line?.calls), /^PUT \/0: 1, (?:PUT \/[0-9]+: 1, ){31}others: 8$/);
});

Deno.test("callers are counted separately up to a limit, and together beyond it", () => {
  const { lines, written } = open();
  for (let at = 0; at < 256; at++) lines.answered({ who: "refused", peer: `peer ${at}` }, 401);
  let alone = 0;
  for (let at = 0; at < CALLER_LINES_MAX + 5; at++) {
    alone += lines.answered({ who: "refused", peer: `further ${at}` }, 401) ? 1 : 0;
  }
  lines.flush();
  assertEquals(alone, CALLER_LINES_MAX);
  assertEquals(written.map(({ who, requests }) => [who, requests]), [["others", 5]]);
});

Deno.test("an audit trail has every call, however many lines of the log are counted together", async () => {
  const entries: unknown[] = [];
  const auditTrail = {
    append: (entry: unknown) => {
      entries.push(entry);
      return Promise.resolve();
    },
  };
  await withHttpAgent(async (agent) => {
    const calls = CALLER_LINES_MAX;
    for (let at = 0; at < calls - 2; at++) {
      await agent.call("DELETE", "/workflows/00000000-0000-4000-8000-000000000000");
    }
    await agent.call("BREW", "/nowhere");
    await agent.call("DELETE", "/nowhere");
    assertEquals(entries.length, calls);
    const lines = agent.log.filter(({ msg }) =>
      msg === "call audited" || msg === "request refused"
    );
    assertEquals(lines.length, CALLER_LINES_MAX);
    agent.closing.abort();
    const [together] = agent.log.filter(({ msg }) => msg === "requests counted together");
    assertEquals([together?.requests, together?.calls_audited], [calls / 2, calls / 2]);
    assertEquals(together?.statuses, `404: ${calls / 2}`);
    // Methods are words of the caller, and unknown paths have no route.
    assertEquals(
      together?.calls,
      `DELETE /workflows/:wf_uuid: ${calls / 2 - 2}, other none: 1, DELETE none: 1`,
    );
  }, { auditTrail });
});
