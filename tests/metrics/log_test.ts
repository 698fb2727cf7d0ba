import { assertEquals } from "@std/assert";
import { type LogFormat, type LogOptions, openLog } from "../../src/metrics/log.ts";

const now = () => "2026-01-01T12:00:00.000Z";

function linesOf(format: LogFormat, fields: Record<string, unknown>): string[] {
  const lines: string[] = [];
  const writer = { name: "zonewright", hostname: "host-1", pid: 4711 };
  const write = (line: string) => lines.push(line);
  openLog({ level: "info", format, writer, write, now }).info("done", fields);
  return lines;
}

Deno.test("a log escapes what could forge a line", () => {
  const text = 'one\ntwo="\u001b[0m';
  assertEquals(linesOf("text", { text }), [
    String.raw`12:00:00 info  done text="one\ntwo=\"\u001b[0m"`,
  ]);
  assertEquals(linesOf("json", { text }).map((line) => JSON.parse(line).text), [text]);
});

Deno.test("a log escapes what some terminals obey, and what turns the order of a line", () => {
  const text = "\u007f \u0085 \u009b2J \u2028 \u2029 \u202e \u2066";
  const shown = String.raw`\u007f \u0085 \u009b2J \u2028 \u2029 \u202e \u2066`;
  assertEquals(linesOf("text", { text, [text]: undefined }), [
    `12:00:00 info  done text="${shown}" "${shown}"=undefined`,
  ]);
  for (const format of ["json", "bunyan"] as const) {
    const [line = ""] = linesOf(format, { text });
    assertEquals(line.includes(shown), true, line);
    assertEquals(JSON.parse(line).text, text);
  }
});

Deno.test("a field may have any name, also one of the head's own", () => {
  const fields = JSON.parse('{"__proto__":"a","constructor":"b","msg":"c","level":{"d":1}}');
  const [line = ""] = linesOf("json", fields);
  assertEquals(
    line,
    '{"ts":"2026-01-01T12:00:00.000Z","level":"info","msg":"done","__proto__":"a",' +
      '"constructor":"b","msg_":"c","level_":{"d":1}}',
  );
});

Deno.test("a log line that cannot be written does not fail the work that it reports", () => {
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

Deno.test("a line for bunyan has the fields that bunyan requires, and the event's own", () => {
  const [line = ""] = linesOf("bunyan", { request_id: "r-1", status: 200 });
  assertEquals(JSON.parse(line), {
    v: 0,
    name: "zonewright",
    hostname: "host-1",
    pid: 4711,
    level: 30,
    time: "2026-01-01T12:00:00.000Z",
    msg: "done",
    request_id: "r-1",
    status: 200,
  });
});

Deno.test("a field cannot replace time, level or msg of a line", () => {
  const fields = { level: "x", msg: "y", name: "z", ts: 1, constructor: 2 };
  const [json = ""] = linesOf("json", fields);
  const { level, level_, msg, msg_, ts, ts_, name } = JSON.parse(json);
  assertEquals([level, level_, msg, msg_, ts_, name], ["info", "x", "done", "y", 1, "z"]);
  assertEquals(ts, "2026-01-01T12:00:00.000Z");
  const [bunyan = ""] = linesOf("bunyan", fields);
  assertEquals([JSON.parse(bunyan).name, JSON.parse(bunyan).name_], ["zonewright", "z"]);
});

Deno.test("lines below the level are left out, as the level is at that moment", () => {
  const lines: string[] = [];
  const write = (line: string) => lines.push(line.slice(9));
  const options: LogOptions = { level: "warn", format: "text", write, now };
  const log = openLog(options);
  log.info("one");
  log.warn("two");
  options.level = "debug";
  log.with({ job_uuid: "j" }).debug("three");
  assertEquals(lines, ["warn  two", "debug three job_uuid=j"]);
});
