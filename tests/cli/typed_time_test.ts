// Times as people type them, and what is said about those that are none.

import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { typedFuture, typedPast } from "../../src/cli/command/typed_value.ts";

const NOW = Date.parse("2026-11-22T13:45:10.500Z");

/** Midnight where this process is. */
function midnight(year: number, month: number, day: number): string {
  return new Date(year, month - 1, day).toISOString();
}

const here = new Date(NOW);
const TODAY = midnight(here.getFullYear(), here.getMonth() + 1, here.getDate());

Deno.test("--since takes today, an age, a date of the caller, and a time with its zone", () => {
  const past = (text: string) => typedPast(text, "--since", NOW);
  assertEquals(past("today"), TODAY);
  assertEquals(past("2h"), "2026-11-22T11:45:10.500Z");
  assertEquals(past("7d"), "2026-11-15T13:45:10.500Z");
  assertEquals(past("2026-11-02"), midnight(2026, 11, 2));
  assertEquals(past("2026-11-02T18:30Z"), "2026-11-02T18:30:00.000Z");
  assertEquals(past("2026-11-02T18:30:00+01:00"), "2026-11-02T17:30:00.000Z");
});

Deno.test("--at takes a time from now, a date of the caller, and a time with its zone", () => {
  const future = (text: string) => typedFuture(text, "--at", NOW);
  assertEquals(future("+10m"), "2026-11-22T13:55:10.500Z");
  assertEquals(future("10m"), "2026-11-22T13:55:10.500Z");
  assertEquals(future("2026-12-01"), midnight(2026, 12, 1));
  assertEquals(future("2026-12-01T03:00Z"), "2026-12-01T03:00:00.000Z");
});

Deno.test("a day begins at midnight where the caller is", async () => {
  for (const [zone, midnight] of [["Asia/Tokyo", "15:00"], ["America/New_York", "05:00"]]) {
    const module = new URL("../../src/cli/command/typed_value.ts", import.meta.url).href;
    const code = `import { typedPast } from ${JSON.stringify(module)};
      console.log(typedPast("2026-01-15", "--since", ${NOW}).slice(11, 16));`;
    const { stdout } = await new Deno.Command(Deno.execPath(), {
      args: ["eval", "--quiet", "--cached-only", code],
      cwd: new URL("../..", import.meta.url),
      env: { TZ: zone ?? "" },
    }).output();
    assertEquals(new TextDecoder().decode(stdout).trim(), midnight, zone);
  }
});

Deno.test("an invalid time is refused with what was found and what is expected", () => {
  const said = (read: typeof typedPast, text: string, flag = "--at") =>
    assertThrows(() => read(text, flag, NOW), AgentError).message;
  for (const text of ["", "yesteryear", "2026", "2026-02-31", "25:00", "999999999999d"]) {
    const message = said(typedPast, text, "--since");
    assertStringIncludes(message, `Cannot use --since ${JSON.stringify(text)}, expected today`);
  }
  assertStringIncludes(
    said(typedPast, "2026-11-22T18:30", "--since"),
    "it names no time zone (2026-11-22T18:30Z is UTC)",
  );
  for (const text of ["today", "+", "+10", "+10x", "soon", "+999999999999d"]) {
    assertStringIncludes(said(typedFuture, text), "expected a time from now such as +90s");
  }
  for (const text of ["0 3 * * *", "@daily", "*/5 * * * *", "mon 3 4 5"]) {
    assertStringIncludes(said(typedFuture, text), "there is no cron here, a job runs once");
  }
});
