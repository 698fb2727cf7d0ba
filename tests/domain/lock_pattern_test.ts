import { assertEquals, assertRejects } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { parseLockPattern } from "../../src/domain/job/request.ts";

Deno.test("an unanchored pattern matches anywhere in a target", async () => {
  const cases: [pattern: string, target: string, found: boolean][] = [
    ["disk", "/pool/disk0", true],
    ["disk", "/pool/Disk0", false],
    ["(?i)DISK", "/pool/disk0", true],
    ["^/pool", "/pool/disk0", true],
    ["^/pool$", "/pool/disk0", false],
    ["^/pool$", "/pool\n", false],
    ["/machines/[0-9a-f-]{36}$", "/machines/00000000-0000-4000-8000-000000000001", true],
    ["^$", "/", false],
    [".", "\n", false],
    ["\\p{Greek}", "α", true],
    ["^.$", "😀", true],
    ["a.b", "a.b", true],
    ["a\\.b", "axb", false],
  ];
  for (const [pattern, target, found] of cases) {
    const matches = (await parseLockPattern(pattern)).matches(target);
    assertEquals([pattern, target, matches], [pattern, target, found]);
  }
});

Deno.test("a pattern can be matched against any number of targets, in any order", async () => {
  const pattern = await parseLockPattern("^/a");
  const found = ["/a", "/b", "/a/b", "", "/a"].map((target) => pattern.matches(target));
  assertEquals(found, [true, false, true, false, true]);
});

Deno.test("an invalid pattern, or one that is not linear, is refused by its field", async () => {
  const patterns = [
    "(",
    "[a",
    "a**",
    "\\",
    "(?=a)",
    "(?!a)",
    "(?<=a)b",
    "(a)\\1",
    "(?P<n>a)(?P<n>b)",
    "a{1001}",
    "(a{100}){100}",
    "((a{10}){10}){11}",
  ];
  for (const pattern of patterns) {
    const error = await assertRejects(() => parseLockPattern(pattern), AgentError);
    assertEquals([error.code, error.errors[0]?.field], ["invalid_argument", "locks"]);
  }
});

Deno.test("a pattern of 512 steps is accepted, a longer one is refused as too large", async () => {
  // Each repetition is one step; the beginning and the end take two more.
  assertEquals((await parseLockPattern("a{510}")).matches("a".repeat(510)), true);
  const error = await assertRejects(() => parseLockPattern("a{511}"), AgentError);
  assertEquals(error.errors.map(({ field, code }) => [field, code]), [["locks", "TooLarge"]]);
});

Deno.test("a pattern that backtracking engines never finish is matched at once", async () => {
  const target = "a".repeat(50_000);
  for (const pattern of ["(a*)*b", "(a|a)*b", "(a+)+$b", "^(([a-z])+.)+[A-Z]([a-z])+$"]) {
    assertEquals((await parseLockPattern(pattern)).matches(target), false);
  }
});
