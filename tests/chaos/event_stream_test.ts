// Agents that die at any moment while jobs run: a reader that comes back with the last id that it has seen
// has every event once, and a reader that reads all of them at the end has the same.

import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { withFolder } from "../support/until.ts";
import { type ReadEvent, readEvents } from "../http/event_reader.ts";

const LIVES = 3;
const JOBS = 12;
/** Events that are read of a life before it ends. */
const READ = 20;

const shown = ({ id, kind, data }: ReadEvent) => `${id} ${kind} ${data.change} ${data.job_uuid}`;

Deno.test("no event is lost or sent twice when the agent is killed again and again", () =>
  withFolder(async (folder) => {
    const read: ReadEvent[] = [];
    let last = "0";
    for (let life = 1; life <= LIVES; life++) {
      const agent = await startAgentProcess(programOfRun(), join(folder, "state"), ["--dev"]);
      try {
        const chain = [{ name: "a", body: "(job, cb) => cb()" }];
        const made = await agent.post("/workflows", { name: `life-${life}`, chain });
        await using reader = await readEvents(agent.url, "?kind=job,host", {
          "last-event-id": last,
        });
        const posted = Promise.allSettled(
          Array.from(
            { length: JOBS },
            () => agent.post("/jobs", { workflow: String(made.body.uuid) }),
          ),
        );
        const before = read.length;
        // The last life runs to its end.
        const whole = (event: ReadEvent) => {
          read.push(event);
          last = String(event.id);
          if (life < LIVES) return read.length - before >= READ;
          const ended = read.filter(({ data }) => data.change === "succeeded");
          const begun = read.filter(({ data }) => data.change === "created");
          return begun.length >= JOBS * (life - 1) && ended.length === begun.length;
        };
        await reader.until(whole);
        if (life < LIVES) await agent.kill();
        await posted;
        if (life < LIVES) continue;
        await using again = await readEvents(agent.url, "?kind=job,host", { "last-event-id": "0" });
        const all = await again.until(({ id }) => String(id) === last);
        assertEquals(read.map(shown), all.map(shown));
        assertEquals(new Set(read.map(({ id }) => id)).size, read.length);
        assert(read.every(({ id }, at) => at === 0 || id > (read[at - 1]?.id ?? 0)));
        const starts = read.filter(({ data }) => data.change === "started" && "detail" in data);
        assertEquals(starts.length, LIVES);
        // The last word of an agent that is stopped in order.
        await agent.stop();
        const ending = await reader.until(({ data }) => data.change === "draining");
        assertEquals(ending.at(-1)?.kind, "host");
        assertEquals(await reader.next(), undefined);
      } finally {
        await agent.stop();
      }
    }
  }));
