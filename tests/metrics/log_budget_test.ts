// What the log may grow by, and what it says of the rest.

import { assert, assertEquals } from "@std/assert";
import { openLog } from "../../src/metrics/log.ts";
import { type LeftOutNote, openLogBudget } from "../../src/metrics/log_output.ts";

/** Bytes that may be written at once, and that an hour refills. */
const BURST = 32 * 1024 * 1024;
/** As long as a line may be, so that few are enough. */
const TEXT = "x".repeat(1900);
const HOUR_MS = 3_600_000;

/** A log within a budget, on a clock that stands still until it is moved. */
function open() {
  const clock = { ms: 0 };
  const leftOut = { caller: 0, budget: 0, reader: 0 };
  const notes: LeftOutNote[] = [];
  const budget = openLogBudget({
    report: (note) => notes.push(note),
    leftOut,
    nowMs: () => clock.ms,
  });
  let bytes = 0;
  const log = openLog({
    level: "debug",
    format: "json",
    now: () => "2026-01-01T12:00:00.000Z",
    write: (line) => bytes += new TextEncoder().encode(line).length + 1,
    budget,
    leftOut,
  });
  return { clock, leftOut, notes, budget, log, bytes: () => bytes };
}

Deno.test("an hour of log has at most the burst and the refilled bytes", () => {
  const { clock, log, budget, bytes } = open();
  const minutes = 60;
  for (let minute = 0; minute < minutes; minute++) {
    for (let line = 0; line < 500; line++) log.error("request failed", { text: "é".repeat(1200) });
    clock.ms += HOUR_MS / minutes;
  }
  assert(bytes() <= 2 * BURST, `${bytes()} bytes`);
  assert(bytes() > 1.9 * BURST, `${bytes()} bytes`);
  budget.flush();
});

Deno.test("debug lines may use a quarter of the budget, info half, warnings three quarters, errors all", () => {
  const { log, budget, bytes } = open();
  const fill = (write: (message: string, fields: { text: string }) => void) => {
    for (let line = 0; line < 20_000; line++) write("a line", { text: TEXT });
    return Math.round(bytes() / BURST * 100);
  };
  assertEquals(fill((message, fields) => log.debug(message, fields)), 25);
  assertEquals(fill((message, fields) => log.info(message, fields)), 50);
  assertEquals(fill((message, fields) => log.warn(message, fields)), 75);
  assertEquals(fill((message, fields) => log.error(message, fields)), 100);
  budget.flush();
});

Deno.test("dropped lines are counted by message, and the log says how many", () => {
  const { clock, log, notes, leftOut, budget } = open();
  for (let line = 0; line < 20_000; line++) log.error("filled", { text: TEXT });
  const before = leftOut.budget;
  for (let line = 0; line < 3; line++) log.info("job finished");
  log.warn("callback failed");
  clock.ms += 7_000;
  budget.flush();
  assertEquals(leftOut.budget, before + 4);
  const [note] = notes;
  assertEquals([notes.length, note?.lines, note?.seconds], [1, leftOut.budget, 7]);
  assertEquals(note?.messages, `filled: ${before}, job finished: 3, callback failed: 1`);
  budget.flush();
  assertEquals(notes.length, 1);
});

Deno.test("beyond 64 different messages, dropped lines are counted as others", () => {
  const { log, notes, budget } = open();
  for (let line = 0; line < 20_000; line++) log.error("filled", { text: TEXT });
  for (let line = 0; line < 200; line++) log.info(`message ${line}`);
  budget.flush();
  assert((notes[0]?.messages.split(", ").length ?? 0) <= 65);
  assert(notes[0]?.messages.includes("others: "), notes[0]?.messages);
});

Deno.test("a field that is an object is cut like a text", () => {
  const lines: string[] = [];
  const write = (line: string) => lines.push(line);
  const now = () => "2026-01-01T12:00:00.000Z";
  openLog({ level: "info", format: "json", write, now }).info("done", {
    small: { a: 1 },
    large: { a: "x".repeat(100_000) },
  });
  const { small, large } = JSON.parse(lines[0] ?? "");
  assertEquals([small, large.length], [{ a: 1 }, 2000]);
});
