// The suite's part on the filter by params: a text fits the text itself, and the JSON of any other
// value.

import { assertEquals } from "@std/assert";
import type { JsonObject, JsonValue } from "../../src/domain/json.ts";
import { PARAM_LOOKED_AT_MAX } from "../../src/store/limits.ts";
import type { Store } from "../../src/store/store.ts";
import { jobOf } from "../support/job.ts";
import { claim, create, recordOf, type Test } from "./store_case.ts";

/** Keys that a query language might take for something else. */
const KEYS = [
  "a",
  "a.b",
  "$",
  "$x",
  "$.a",
  "[0]",
  "a[0]",
  'a"b',
  '"',
  "a'b",
  "a\\b",
  "a\\u0062",
  "",
  " ",
  "0",
  "-1",
  "#",
  "%",
  "_",
  "?",
  "?1",
  ":a",
  "a,b",
  "{a}",
  "é",
  "e\u0301",
  "😀",
  "\n",
  "__proto__",
  "constructor",
  "/a/b",
  "k".repeat(500),
];

/** One property; assignment would lose a key named __proto__. */
const only = (key: string, value: JsonValue): JsonObject => Object.fromEntries([[key, value]]);

async function found(store: Store, params: Record<string, string>): Promise<JsonValue[]> {
  const jobs = await store.jobs.list({ params });
  assertEquals(await store.jobs.count({ params }), jobs.length);
  return jobs.map(({ job }) => job.params);
}

export function paramsTests(test: Test): void {
  test("hasParam() looks at the newest jobs, by the whole name", async (store) => {
    assertEquals(await store.jobs.hasParam("a"), false);
    await create(store, jobOf(1, { params: Object.fromEntries(KEYS.map((key) => [key, null])) }));
    await create(store, jobOf(2, { params: { first: { second: 1 } } }));
    for (const name of ["a", "a.b", "é", "0", "first"]) {
      assertEquals(await store.jobs.hasParam(name), true, name);
    }
    for (const name of ["b", "second", "first.second", "A"]) {
      assertEquals(await store.jobs.hasParam(name), false, name);
    }
    const made = (n: number) => create(store, jobOf(n, {}));
    await Promise.all(Array.from({ length: 2 * PARAM_LOOKED_AT_MAX }, (_, n) => made(n + 3)));
    assertEquals(await store.jobs.hasParam("first"), false);
  });

  test("params fit by the text, or by the JSON of a number, a boolean, null or a nested value", async (store) => {
    const values: JsonValue[] = [
      "1",
      1,
      -2.5,
      1e21,
      true,
      false,
      null,
      "true",
      "null",
      "",
      '"',
      '"1"',
      "it's 100% _ \\",
      [],
      [1, "a"],
      {},
      { b: [1, { c: "é" }] },
    ];
    for (const [index, value] of values.entries()) {
      await create(store, jobOf(index + 1, { params: { a: value } }));
    }
    const fits = async (text: string) => {
      return (await found(store, { a: text })).map((params) => (params as JsonObject).a);
    };
    assertEquals(await fits("1"), [1, "1"]);
    assertEquals(await fits("-2.5"), [-2.5]);
    assertEquals(await fits("1e+21"), [1e21]);
    assertEquals(await fits("1.0"), []);
    assertEquals(await fits("true"), ["true", true]);
    assertEquals(await fits("false"), [false]);
    assertEquals(await fits("null"), ["null", null]);
    assertEquals(await fits(""), [""]);
    assertEquals(await fits('"'), ['"']);
    assertEquals(await fits('"1"'), ['"1"']);
    assertEquals(await fits('""'), []);
    assertEquals(await fits("it's 100% _ \\"), ["it's 100% _ \\"]);
    assertEquals(await fits("[]"), [[]]);
    assertEquals(await fits('[1,"a"]'), [[1, "a"]]);
    assertEquals(await fits("{}"), [{}]);
    assertEquals(await fits('{"b":[1,{"c":"é"}]}'), [{ b: [1, { c: "é" }] }]);
    assertEquals(await fits("TRUE"), []);
  });
  test("a param name with dots, quotes or brackets matches only itself", async (store) => {
    for (const [index, key] of KEYS.entries()) {
      await create(store, jobOf(index + 1, { params: only(key, "here") }));
    }
    for (const key of KEYS) {
      const jobs = await store.jobs.list({ params: only(key, "here") as Record<string, string> });
      assertEquals(jobs.map(({ job }) => Object.keys(job.params)), [[key]]);
    }
    for (const key of ["b", "$.b", "k", "K".repeat(500), "É"]) {
      assertEquals(await found(store, { [key]: "here" }), []);
    }
  });
  test("a key inside a nested value does not count", async (store) => {
    await create(store, jobOf(1, { params: { a: { b: "x" }, c: ["x"] } }));
    for (const key of ["b", "a.b", "$.a.b", "0", "c[0]", "[0]"]) {
      assertEquals(await found(store, { [key]: "x" }), []);
    }
  });
  test("a job must fit every param, and one that has none of them fits none", async (store) => {
    await create(store, jobOf(1, { params: { a: 1, b: 2 } }));
    await create(store, jobOf(2, { params: { a: 1 } }));
    await create(store, jobOf(3));
    assertEquals(await found(store, { a: "1", b: "2" }), [{ a: 1, b: 2 }]);
    assertEquals((await found(store, { a: "1" })).length, 2);
    assertEquals(await found(store, { a: "2" }), []);
    assertEquals((await found(store, {})).length, 3);
  });
  test("params are matched as the tasks have changed them", async (store) => {
    await create(store, jobOf(1, { params: { a: 1 } }));
    const params = { a: 2, new: [true] };
    await store.jobs.recordTask(recordOf(await claim(store), { kind: "continue" }, { params }));
    assertEquals(await found(store, { a: "1" }), []);
    assertEquals(await found(store, { a: "2", new: "[true]" }), [params]);
  });
}
