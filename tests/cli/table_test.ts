import { assert, assertEquals } from "@std/assert";
import { openPrinter } from "../../src/cli/output/printer.ts";
import {
  ageText,
  aheadText,
  durationText,
  sizeOrDash,
  tableLines,
} from "../../src/cli/output/table.ts";
import { openScreen } from "./screen.ts";
import { paintFor, printable } from "../../src/cli/output/terminal.ts";

Deno.test("tableLines() aligns columns and pads no line at its end", () => {
  const columns = [{ head: "NAME" }, { head: "N", right: true }, { head: "LAST" }] as const;
  assertEquals(tableLines(columns, [["a", "7", "x"], ["longer", "10", ""]], undefined), [
    "NAME     N  LAST",
    "a        7  x",
    "longer  10",
  ]);
});

Deno.test("tableLines() cuts flexible columns to the window and never the others", () => {
  const uuid = "6c1e8f0a-6a53-4c0c-9a3b-0d1f4e0a7a11";
  const columns = [{ head: "UUID" }, { head: "NAME", flexible: true }] as const;
  const [, line] = tableLines(columns, [[uuid, "a name that is far too long"]], 50);
  assertEquals(line, `${uuid}  a name that…`);
  const [, whole] = tableLines(columns, [[uuid, "a name that is far too long"]], 10);
  assert(whole?.startsWith(uuid));
});

Deno.test("printable() lets no text move the cursor, forge a line or turn the reading order", () => {
  assertEquals(printable("a\x1b[2Jb\nc\u202ed"), "a\\x1b[2Jb\\nc\\u202ed");
  assertEquals(printable("größe ✓"), "größe ✓");
});

Deno.test("ageText() names the largest whole unit", () => {
  const now = Date.parse("2026-01-02T00:00:00Z");
  assertEquals(ageText("2026-01-01T23:59:48Z", now), "12 s");
  assertEquals(ageText("2026-01-01T23:55:00Z", now), "5 m");
  assertEquals(ageText("2025-12-31T23:00:00Z", now), "1 d");
  assertEquals(ageText("2026-01-02T01:00:00Z", now), "0 s");
  assertEquals(ageText(undefined, now), "-");
  assertEquals(aheadText("2026-01-02T00:09:59Z", now), "9 m");
  assertEquals(aheadText("soon", now), "-");
});

Deno.test("durationText() and sizeOrDash() use the units that people use", () => {
  assertEquals([0.04, 9.94, 42.4, 185, 7810].map(durationText), [
    "0.0 s",
    "9.9 s",
    "42 s",
    "3 m 05 s",
    "2 h 10 m",
  ]);
  assertEquals([631 * 1024 ** 2, 0, undefined, null].map(sizeOrDash), ["631 MiB", "0 B", "-", "-"]);
});

Deno.test("paintFor() paints on a window only, and not with NO_COLOR or TERM=dumb", () => {
  const painted = (env: Record<string, string>, isTerminal: boolean) =>
    paintFor(openScreen({ env, isTerminal }).terminal, "out")("red", "x") !== "x";
  assertEquals(painted({}, true), true);
  assertEquals(painted({}, false), false);
  assertEquals(painted({ NO_COLOR: "1" }, true), false);
  assertEquals(painted({ NO_COLOR: "" }, true), true);
  assertEquals(painted({ TERM: "dumb" }, true), false);
});

Deno.test("tableLines() cuts a word only where no other column gives way", () => {
  const columns = [{ head: "A", flexible: true }, { head: "B", flexible: true }] as const;
  const rows = [["installer", "one two three"]];
  assertEquals(tableLines(columns, rows, 20)[1], "installer  one two…");
  assertEquals(tableLines(columns, rows, 18)[1], "install…  one two…");
});

Deno.test("a mark is coloured, and no text after it can colour itself", () => {
  const screen = openScreen({ isTerminal: true });
  const printer = openPrinter(screen.terminal, { json: false, streams: false });
  printer.marked({ text: "warn", style: "yellow" }, " \x1b[31mred");
  assertEquals(screen.out(), "\x1b[33mwarn\x1b[0m \\x1b[31mred\n");
});
