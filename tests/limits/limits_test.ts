// Every limit that may be configured is met by an agent that is configured with it. The table is
// complete by its type and by the last test: a limit without a way to meet it fails both.

import { assertEquals } from "@std/assert";
import { LIMITS } from "../../src/config/limits.ts";
import { CONNECTION_LIMITS, CONNECTIONS_LIMIT } from "./connection_limits.ts";
import { CONSOLE_LIMITS } from "./console_limits.ts";
import { type LimitName, limitTest } from "./limit_case.ts";
import { PLACE_LIMITS } from "./place_limits.ts";
import { FIXED_REQUEST_LIMITS, REQUEST_LIMITS } from "./request_limits.ts";
import { finishedJobsTest, KEPT_LIMITS, outageTest } from "./kept_limits.ts";
import { limitsPage } from "./write_page.ts";
import { UPLOAD_LIMITS } from "./upload_limits.ts";
import { FIXED_TASK_LIMITS, TASK_LIMITS } from "./task_limits.ts";

const GROUPS = [
  REQUEST_LIMITS,
  FIXED_REQUEST_LIMITS,
  TASK_LIMITS,
  FIXED_TASK_LIMITS,
  CONNECTION_LIMITS,
  CONNECTIONS_LIMIT,
  PLACE_LIMITS,
  CONSOLE_LIMITS,
  UPLOAD_LIMITS,
];

for (const group of GROUPS) limitTest(group);
finishedJobsTest();
outageTest();

Deno.test("every limit of the configuration is met by a test", () => {
  const met: LimitName[] = [
    ...GROUPS.flatMap(({ cases }) => Object.keys(cases) as LimitName[]),
    ...KEPT_LIMITS,
  ];
  assertEquals(met.toSorted(), (Object.keys(LIMITS) as LimitName[]).toSorted());
});

Deno.test("docs/limits.md has the limits of this version", async () => {
  const { found, required } = await limitsPage();
  assertEquals(found, required, "run tests/limits/write_page.ts");
});
