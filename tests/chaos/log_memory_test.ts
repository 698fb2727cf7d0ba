// A caller that calls as fast as it is answered: what it makes the log grow by,
// and that the audit file has every one of them.

import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { length, objectOf } from "./agent_under_chaos.ts";
import { atOnce, loadTest } from "./memory_load.ts";
import { RawConnection } from "./raw_connection.ts";
import { withDeadline } from "../support/until.ts";

const CALLERS = 4;
const CALLS_MS = length({ quick: 5_000, full: 60_000 });
/** Lines of one caller in a minute; see docs/operations.md. */
const LINES_MAX = 600;
const END_MS_MAX = 90_000;
const LONG_PATH = `/jobs/${"x".repeat(2_000)}`;

loadTest("a caller makes calls without a pause", async ({ agent, folder }) => {
  const chain = [{ body: "function (job, cb) { cb(); }" }];
  const posted = await agent.ask("POST", "/workflows", { name: "quick", chain });
  const { uuid } = objectOf(posted);
  let calls = 1;
  const endMs = performance.now() + CALLS_MS;
  await atOnce(CALLERS, async () => {
    const connection = await RawConnection.open(agent.url);
    while (performance.now() < endMs) {
      await connection.send([
        { method: "PUT", path: `/workflows/${uuid}`, body: { name: "quick", chain } },
        { method: "DELETE", path: LONG_PATH },
      ]);
      for (const allowed of [[201, 503], [404, 405]]) {
        const { status, text } = await connection.answer();
        assert(allowed.includes(status), text);
        calls += 1;
      }
    }
    connection.close();
  });
  const audit = (await Deno.readTextFile(join(folder, "audit.log"))).trimEnd().split("\n");
  assertEquals(audit.length, calls);
  assert(audit.every((line) => line.length < 2_000), "an entry has no bound");
  agent.signal("SIGTERM");
  await withDeadline(agent.ended, END_MS_MAX, () => "the agent to end");
  const minutes = Math.ceil(CALLS_MS / 60_000) + 1;
  const lines = agent.log().split("\n").filter((line) => /"(request|call) \w+"/.test(line));
  assert(lines.length <= LINES_MAX * minutes, `${lines.length} lines of ${calls} calls`);
  assert(calls < LINES_MAX || agent.log().includes("requests counted together"), "nothing is said");
  console.log(`${calls} calls, ${lines.length} lines about them`);
}, {
  ends: true,
  prepare: (folder) => Promise.resolve(["--audit-file", join(folder, "audit.log")]),
});
