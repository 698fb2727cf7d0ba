// What a guest inherits of the files, sockets and database of its agent: nothing.

import { assert, assertEquals } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { startAgentProcess } from "../support/agent_process.ts";
import { until, withFolder } from "../support/until.ts";
import type { Program } from "../support/agent_process.ts";
import { eachProgram } from "../support/each_program.ts";

/** What the descriptors of a process lead to, by their numbers. */
function descriptors(pid: number): Map<number, string> {
  const folder = `/proc/${pid}/fd`;
  const found = new Map<number, string>();
  for (const { name } of Deno.readDirSync(folder)) {
    try {
      found.set(Number(name), Deno.readLinkSync(`${folder}/${name}`));
    } catch (error) {
      // It was closed while we looked.
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  return found;
}

/** The guests of an agent: of its children, those that have become guests. */
function guestsOf(agent: number): number[] {
  const tasks = Array.from(Deno.readDirSync(`/proc/${agent}/task`), ({ name }) => name);
  return tasks.flatMap((task) =>
    textOf(`/proc/${agent}/task/${task}/children`).split(" ").filter(Boolean)
  ).map(Number).filter((pid) =>
    /\0guest\0[^\0]*\0[\d,]+\0$/.test(textOf(`/proc/${pid}/cmdline`)) &&
    !/setpriv|prlimit|unshare/.test(textOf(`/proc/${pid}/comm`))
  );
}

/** Whether a guest has reached its agent; before, the libraries that it loads are open. */
function isConnected(guest: number): boolean {
  return [...descriptors(guest)].some(([number, path]) => number > 2 && path.startsWith("socket:"));
}

/** A file of a thread or process, which may have ended since it was found: then it is empty. */
function textOf(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return "";
  }
}

const SOURCES = fromFileUrl(new URL("../../src/", import.meta.url));

eachProgram("a guest has no descriptor of its agent but the three pipes", async (program) => {
  await withFolder(async (folder) => {
    // What this process hands down to every program that it starts is not the agent's.
    const born = [...descriptors(Deno.pid).values()].filter((path) => path !== "/dev/null");
    // An index to read, a socket beside the port, a database, and a host that is simulated.
    const agent = await startAgentProcess(program, `${folder}/state`, [
      "--dev",
      "--socket",
      `${folder}/http`,
    ]);
    try {
      const noop = { name: "no-op", chain: [{ name: "nothing", body: "(job, cb) => cb()" }] };
      const { body } = await agent.post("/workflows", noop);
      const { body: job } = await agent.post("/jobs", { workflow: String(body.uuid) });
      await agent.job(String(job.uuid), "success", "succeeded");
      const pid = Number(await Deno.readTextFile(`${folder}/state/agent.pid`));
      const guests = await until("the guest of the job, and a spare", () => {
        const all = guestsOf(pid).filter(isConnected);
        return all.length >= 2 && all;
      });
      const ofAgent = descriptors(pid);
      const files = [...ofAgent.values()].filter((path) => path.startsWith(folder));
      assert(files.length > 1, `The agent has nothing to inherit: ${[...ofAgent.values()]}`);
      for (const guest of guests) {
        const all = descriptors(guest);
        const pipes = [0, 1, 2].map((number) => all.get(number));
        // Deno keeps second descriptors of its streams; they lead to the same pipes.
        const shared = [...all.values()].filter((path) =>
          /^(pipe|socket):/.test(path) && [...ofAgent.values()].includes(path)
        );
        assertEquals(shared.filter((path) => !pipes.includes(path) && !born.includes(path)), []);
        for (const [number, path] of all) {
          if (number <= 2 || born.includes(path)) continue;
          assert(allowed(path, program.name), `descriptor ${number} leads to ${path}`);
        }
      }
    } finally {
      await agent.stop();
    }
  });
});

/** What a guest opens itself: its connection, what its event loop needs, and its own program. */
function allowed(path: string, name: Program["name"]): boolean {
  if (/^(pipe|socket|anon_inode):/.test(path)) return true;
  if (["/dev/null", "/dev/urandom"].includes(path)) return true;
  if (name === "node") return /\/zonewright\.mjs$/.test(path);
  if (name === "binary") return /\/zonewright$/.test(path);
  // Deno from source keeps the caches of its own folder open, and reads the sources as it starts.
  return /\/[\w.-]+_cache_v\d+(-\w+)?$/.test(path) || path.startsWith(SOURCES);
}
