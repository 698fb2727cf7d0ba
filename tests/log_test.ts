import { assertEquals } from "@std/assert";
import { type LogFormat, openLog } from "../src/log.ts";

const now = () => "2026-01-01T12:00:00.000Z";

function linesOf(format: LogFormat, fields: Record<string, unknown>): string[] {
  const lines: string[] = [];
  openLog({ level: "info", format, write: (line) => lines.push(line), now }).info("done", fields);
  return lines;
}

Deno.test("a log escapes what could forge a line", () => {
  const text = 'one\ntwo="\u001b[0m';
  assertEquals(linesOf("text", { text }), [
    String.raw`12:00:00 info  done text="one\ntwo=\"\u001b[0m"`,
  ]);
  assertEquals(linesOf("json", { text }).map((line) => JSON.parse(line).text), [text]);
});

Deno.test("a log line that cannot be written is no failure of what it tells of", () => {
  const log = openLog({
    level: "info",
    format: "json",
    // What a pipe whose reader is gone does, and a full disk.
    write: () => {
      throw new Deno.errors.BrokenPipe("Broken pipe (os error 32)");
    },
    now,
  });
  log.info("request answered");
  log.with({ job_uuid: "x" }).error("job lost", { number: 1n });
});
