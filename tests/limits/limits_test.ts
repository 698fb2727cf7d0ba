// Every limit that may be configured is met by an agent that is configured with it. The table is
// complete by its type and by the last test: a limit without a way to meet it fails both.

import { assertEquals, assertThrows } from "@std/assert";
import { LIMITS } from "../../src/config/limits.ts";
import { CONNECTION_LIMITS, CONNECTIONS_LIMIT } from "./connection_limits.ts";
import { CONSOLE_LIMITS, MACHINE_CONSOLE_LIMITS } from "./console_limits.ts";
import { type LimitName, limitTest } from "./limit_case.ts";
import { PLACE_LIMITS } from "./place_limits.ts";
import { REQUEST_LIMITS } from "./request_limits.ts";
import { finishedJobsTest, KEPT_LIMITS } from "./kept_limits.ts";
import { CALL_LIMITS, TASK_LIMITS } from "./task_limits.ts";

const GROUPS = [
  REQUEST_LIMITS,
  TASK_LIMITS,
  CALL_LIMITS,
  CONNECTION_LIMITS,
  CONNECTIONS_LIMIT,
  PLACE_LIMITS,
  CONSOLE_LIMITS,
  MACHINE_CONSOLE_LIMITS,
];

for (const group of GROUPS) limitTest(group);
finishedJobsTest();

Deno.test("every limit of the configuration is met by a test", () => {
  const met: LimitName[] = [
    ...GROUPS.flatMap(({ cases }) => Object.keys(cases) as LimitName[]),
    ...KEPT_LIMITS,
  ];
  assertEquals(met.toSorted(), (Object.keys(LIMITS) as LimitName[]).toSorted());
});

/** `| `name` | 32 Ki | 256 Ki |` of the page, as numbers. */
function rowsOf(page: string): Map<string, readonly number[]> {
  const rows = page.matchAll(/^\| `(\w+)` \| (\d+)( [KM]i)? \| (\d+)( [KM]i)? \|/gm);
  const number = (digits = "", unit = "") =>
    Number(digits) * (unit === " Mi" ? 1024 * 1024 : unit === " Ki" ? 1024 : 1);
  return new Map(Array.from(rows, ([, name = "", first, unit, last, lastUnit]) => {
    return [name, [number(first, unit), number(last, lastUnit)]];
  }));
}

Deno.test("docs/limits.md tells every limit with its default and its largest value", async () => {
  const rows = rowsOf(await Deno.readTextFile(new URL("../../docs/limits.md", import.meta.url)));
  assertEquals([...rows.keys()].toSorted(), Object.keys(LIMITS).toSorted());
  const place = { folder: "/" };
  for (const [name, { read, fallback }] of Object.entries(LIMITS)) {
    const [value = 0, largest = 0] = rows.get(name) ?? [];
    assertEquals([name, fallback({ dev: false, cwd: "/", os: "linux" })], [name, value]);
    assertEquals(read(largest, place), largest);
    assertThrows(() => read(largest + 1, place), Error, String(largest), name);
  }
});
