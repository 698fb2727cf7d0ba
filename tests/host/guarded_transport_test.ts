// A host on which nothing begins before the runner knows whose its jobs are.

import { assertEquals, assertRejects } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { guardedTransport } from "../../src/host/transport.ts";
import { hostTest } from "./test_host.ts";

const COMMAND = { deadlineMs: 60_000 };

hostTest("no command and no change of a file begins before the guard allows it", async (test) => {
  const refusal = new AgentError("aborted", "Not yet");
  const { folder } = test;
  const { transport, guard } = guardedTransport(test.transport);
  guard.mayAct = () => Promise.reject(refusal);
  const { vmadm, zfs, nictagadm, dladm, sysinfo, files } = transport;
  const [kept, made] = [`${folder}/kept`, `${folder}/made`];
  await Deno.writeTextFile(kept, "kept");
  const acts = [
    () => vmadm(["list"], COMMAND),
    () => zfs(["list"], COMMAND),
    () => nictagadm(["list"], COMMAND),
    () => dladm(["show-link"], COMMAND),
    () => sysinfo([], COMMAND),
    () => files.create(made),
    () => files.moveWithin({ folder, name: "moved", temporary: "kept" }),
    () => files.removeWithin({ folder, name: "kept" }),
    () => files.remove(kept),
  ];
  for (const act of acts) await assertRejects(act, AgentError, "Not yet");
  const names = async () =>
    (await Array.fromAsync(Deno.readDir(folder), ({ name }) => name)).sort();
  const before = await names();
  assertEquals([before.includes("kept"), before.includes("made")], [true, false]);
  // What only looks at files waits for nobody.
  assertEquals((await files.status(kept))?.size, 4);
  guard.mayAct = () => Promise.resolve();
  assertEquals((await vmadm(["list"], COMMAND)).code, 0);
  await (await files.create(made)).close();
  assertEquals(await files.remove(kept), true);
  assertEquals((await names()).filter((name) => ["kept", "made"].includes(name)), ["made"]);
});
