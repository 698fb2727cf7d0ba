import { assert, assertEquals } from "@std/assert";
import { callsText, readInfo } from "../../src/cli/client/job.ts";

Deno.test("callsText() shows a call with its arguments, its end and the time it took", () => {
  const args = { uuid: "u1", force: true, changes: ["quota"] };
  const call = { name: "vmadm.stop", args, ms: 1234, ended: "ok" };
  assertEquals(
    callsText({ task: "t", zonewright_call: call }),
    'vmadm.stop uuid=u1 force=true changes=["quota"] ok 1.2 s',
  );
});

Deno.test("callsText() sums up counted calls", () => {
  const calls = {
    "vmadm.get": { count: 12, failed: 1, ms: 2100 },
    "vnc.wait": { count: 1, ms: 61_000 },
  };
  assertEquals(
    callsText({ task: "t", zonewright_calls: calls }),
    "calls: vmadm.get 12 (1 failed) 2.1 s, vnc.wait 1 1 m 01 s",
  );
});

Deno.test("callsText() keeps its line short whatever an agent sends", () => {
  const odd = [null, 5, [], "x", {}, { name: 5, args: 5, ms: "x" }, {
    args: { a: "x".repeat(1e6) },
  }];
  for (const value of odd) {
    for (const key of ["zonewright_call", "zonewright_calls"]) {
      const text = callsText({ [key]: value }) ?? "";
      assert(text.length <= 400, text.slice(0, 100));
    }
  }
  assertEquals(callsText({ message: "x" }), undefined);
});

Deno.test("readInfo() distinguishes entries about calls from messages and progress", () => {
  assertEquals(readInfo({ task: "t", zonewright_call: { name: "a", ms: 0, ended: "ok" } }), {
    kind: "call",
    task: "t",
    text: "a ok 0.0 s",
  });
  assertEquals(readInfo({ task: "t", message: "m" }).kind, "message");
});
