import { assertEquals, assertThrows } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { openFailpoint, watchForDeath } from "../../src/runtime/failpoint.ts";

/** At which moments of a series of commits the process would have died. */
function deaths(count: number, when: "before" | "after", commits: string[][]): string[] {
  const seen: string[] = [];
  let moment = "";
  const watch = openFailpoint({ write: "job_record", count, when }, () => seen.push(moment));
  for (const [index, names] of commits.entries()) {
    for (const at of ["before", "after"] as const) {
      moment = `${at} ${index}`;
      watch(at, names);
    }
  }
  return seen;
}

const COMMITS = [["job_create"], ["job_record", "job_claim"], ["job_record", "job_record"], [
  "job_record",
]];

Deno.test("a failpoint kills before the commit that holds the n-th write of its name, once", () => {
  assertEquals(deaths(1, "before", COMMITS), ["before 1"]);
  assertEquals(deaths(2, "before", COMMITS), ["before 2"]);
  assertEquals(deaths(4, "before", COMMITS), ["before 3"]);
  assertEquals(deaths(5, "before", COMMITS), []);
});

Deno.test("a failpoint with the word after kills after that commit", () => {
  assertEquals(deaths(3, "after", COMMITS), ["after 2"]);
});

Deno.test("watchForDeath() refuses a failpoint outside of development, and watches nothing without one", () => {
  const failpoint = { write: "job_record", count: 1, when: "after" } as const;
  const error = assertThrows(() => watchForDeath(failpoint, { dev: false }), AgentError);
  assertEquals(error.code, "invalid_argument");
  assertEquals(watchForDeath(null, { dev: true }), undefined);
});
