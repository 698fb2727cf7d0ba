// `job tail` while its agent is killed and started again.

import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { screenFor } from "../cli/screen.ts";
import { programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { until, withFolder } from "../support/until.ts";

/** Says 60 lines, some 20 ms apart; the first time it stays at half of them until it is killed. */
const BODY = `async function (job, cb) {
  for (let n = 1; n <= 60; n++) {
    log.info("line", { n, attempt: job.attempt });
    await sleep(job.attempt === 1 && n === 30 ? 600000 : 20);
  }
  cb();
}`;

Deno.test("job tail shows each line once, also when the agent is killed and started again", () =>
  withFolder(async (folder) => {
    const state = join(folder, "state");
    const first = await startAgentProcess(programOfRun(), state, ["--dev"]);
    const { host } = new URL(first.url);
    const made = await first.post("/workflows", {
      name: "talk",
      chain: [{ name: "talk", body: BODY }],
    });
    const { uuid } = (await first.post("/jobs", { workflow: made.body.uuid ?? "" })).body;
    const screen = screenFor(first.url);
    const tail = screen.run("job", "tail", String(uuid), "--json");
    const shown = () => {
      const lines = screen.out().split("\n").slice(0, -1).map((line) => JSON.parse(line));
      return lines.filter(({ kind }) => kind === "log");
    };
    await until("some lines", () => shown().length >= 10);
    await first.kill();
    const second = await startAgentProcess(programOfRun(), state, ["--dev", "--listen", host]);
    try {
      assertEquals(await tail, 0);
      const sequences: number[] = shown().map(({ sequence }) => sequence);
      const there: number[] = [];
      for (let after = 0, more = true; more;) {
        const { body } = await second.get(`/agent/v1/jobs/${uuid}/log?after=${after}&last=1000`);
        // The page was made by this program.
        there.push(...(body.lines as { sequence: number }[]).map(({ sequence }) => sequence));
        after = Number(body.after);
        more = body.more === true;
      }
      assertEquals(sequences, there);
      const attempts = new Set(shown().map(({ fields }) => fields?.attempt));
      assert(attempts.has(1) && attempts.has(2), "the job was not started again");
      assert(screen.out().includes('"kind":"note"'), "nothing says that the agent was away");
    } finally {
      await second.stop();
    }
  }));
