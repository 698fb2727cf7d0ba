// A running agent for what an operator types: with two workflows, a job that is done, one that has failed
// and one that is delayed, and with files beside it.

import { join } from "@std/path";
import { openScreen, type Screen } from "../../cli/screen.ts";
import { programOfRun, startAgentProcess } from "../../support/agent_process.ts";
import { withFolder } from "../../support/until.ts";
import { CLOSED_ADDRESS } from "../../support/closed_port.ts";

const BODY = "function (job, cb) { cb(null, { greeting: 'hello' }); }";
const FAILING = "function (job, cb) { log.info('copying'); cb(new Error('No space left')); }";

/** Where an ISO image says that it is one. */
const ISO_MARK_BYTE = 32_769;

/** The words of a line as a shell would read it. */
export function wordsOf(line: string): string[] {
  return Array.from(line.matchAll(/"([^"]*)"|(\S+)/g), ([, quoted, word]) => quoted ?? word ?? "");
}

/** An agent with a workflow, a finished job and a delayed one, and files beside it. */
export async function withOperator(
  run: (fill: (text: string) => string, screen: () => Screen) => Promise<void>,
): Promise<void> {
  await withFolder(async (folder) => {
    const write = (name: string, text: string) => Deno.writeTextFile(join(folder, name), text);
    await write("hello.json", JSON.stringify({ name: "hello", chain: [{ body: BODY }] }));
    await write("small.iso", "not an ISO");
    await write("disc.iso", `${"\0".repeat(ISO_MARK_BYTE)}CD001${"\0".repeat(ISO_MARK_BYTE)}`);
    await write("broken.json", "{");
    await write("list.json", "[]");
    await write("empty.json", "{}");
    await write("vm.json", '{"brand": "kvm", "ram": 256, "vcpus": 1}');
    await write("quotes.toml", "host = simulated\n");
    await write("json.toml", '{"slots": 2}\n');
    await write("empty.iso", "");
    const agent = await startAgentProcess(programOfRun(), join(folder, "state"), ["--dev"]);
    try {
      // The agent syncs its sample index at start; hints differ where there is none yet.
      await agent.post("/agent/v1/index/sync", { wait: true });
      const made = await agent.post("/workflows", { name: "hello", chain: [{ body: BODY }] });
      const workflow = made.body.uuid ?? "";
      const done = await agent.post("/jobs", { workflow });
      await agent.job(String(done.body.uuid), "success");
      const broken = await agent.post("/workflows", { name: "copy", chain: [{ body: FAILING }] });
      const failed = await agent.post("/jobs", { workflow: broken.body.uuid ?? "" });
      await agent.job(String(failed.body.uuid), "failure");
      const later = await agent.post("/jobs", { workflow, exec_after: "2999-01-01T00:00:00Z" });
      const fill = (text: string) =>
        text.replaceAll("@done", String(done.body.uuid))
          .replaceAll("@failed", String(failed.body.uuid))
          .replaceAll("@short", String(failed.body.uuid).slice(0, 8))
          .replaceAll("@later", String(later.body.uuid))
          .replaceAll("@dir", folder)
          .replaceAll("@agent", new URL(agent.url).host)
          .replaceAll("@closed", CLOSED_ADDRESS);
      await run(fill, () => openScreen({ cwd: folder, env: { ZONEWRIGHT_URL: agent.url } }));
    } finally {
      await agent.stop();
    }
  });
}
