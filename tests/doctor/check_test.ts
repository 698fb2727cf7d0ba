// How checks are carried out: what throws is a finding, and only what is asked for is repaired.

import { assertEquals } from "@std/assert";
import { diagnose, type Diagnosis, type HealthCheck, ok } from "../../src/service/doctor/check.ts";
import { AgentError } from "../../src/domain/error.ts";

function broken(): { check: HealthCheck; repairs: number } {
  const thing = { broken: true, repairs: 0 };
  const check: HealthCheck = {
    name: "thing",
    about: "a thing that breaks",
    examine: () =>
      Promise.resolve(
        thing.broken
          ? {
            outcome: "fail",
            detail: "broken",
            fix: "mend it",
            repair: () => {
              state.repairs += 1;
              thing.broken = false;
              return Promise.resolve();
            },
          }
          : ok("whole"),
      ),
  };
  const state = { check, repairs: 0 };
  return state;
}

Deno.test("a repair happens only on request, and is checked afterwards", async () => {
  const thing = broken();
  const seen: Diagnosis[] = [];
  const onDiagnosis = (one: Diagnosis) => void seen.push(one);
  const [before] = await diagnose([thing.check], { repair: false, onDiagnosis });
  assertEquals(before, {
    ...{ name: "thing", outcome: "fail", detail: "broken", fix: "mend it", repaired: false },
  });
  assertEquals(thing.repairs, 0);
  const [after] = await diagnose([thing.check], { repair: true, onDiagnosis });
  assertEquals(after, { name: "thing", outcome: "ok", detail: "whole", repaired: true });
  assertEquals(seen.length, 2);
});

Deno.test("a check that throws fails with its message, and the others continue", async () => {
  const failing = (error: unknown): HealthCheck => ({
    name: "x",
    about: "x",
    examine: () => Promise.reject(error),
  });
  const found = await diagnose([
    failing(new AgentError("host", "Cannot run vmadm: it hangs")),
    failing(new TypeError("oops")),
    failing(new Deno.errors.PermissionDenied("stat")),
    { name: "y", about: "y", examine: () => Promise.resolve(ok("fine")) },
  ], { repair: true, onDiagnosis: () => {} });
  assertEquals(found.map(({ outcome, detail }) => [outcome, detail]), [
    ["fail", "Cannot run vmadm: it hangs"],
    ["fail", "internal error: oops"],
    ["fail", "not allowed: stat"],
    ["ok", "fine"],
  ]);
});

Deno.test("what is still broken after a repair is not reported as repaired", async () => {
  let repairs = 0;
  const repair = () => {
    repairs += 1;
    return Promise.resolve();
  };
  const examine = () => Promise.resolve({ outcome: "warn", detail: "open", repair } as const);
  const [found] = await diagnose([{ name: "x", about: "x", examine }], {
    repair: true,
    onDiagnosis: () => {},
  });
  assertEquals(found, { name: "x", outcome: "warn", detail: "open", repaired: false });
  assertEquals(repairs, 3);
});
