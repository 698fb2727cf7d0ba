// `make fleet` as an operator uses it: three hosts in one list, a job on one of them, and nothing left at the end.

import { assert, assertEquals } from "@std/assert";
import { fromFileUrl } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import { postgresTest } from "../support/postgres.ts";
import { until, withFolder } from "../support/until.ts";

const PROGRAM = fromFileUrl(new URL("../fleet.ts", import.meta.url));

async function jsonAt(url: string, init: RequestInit = {}): Promise<JsonObject> {
  return await (await fetch(url, init)).json() as JsonObject;
}

postgresTest(
  "the fleet of `make fleet` has three hosts, and leaves nothing",
  () =>
    withFolder(async (folder) => {
      // A server of root is run by somebody else, who must enter it.
      await Deno.chmod(folder, 0o711);
      const process = new Deno.Command(Deno.execPath(), {
        args: ["run", "--quiet", "--cached-only", "--no-check", "-A", PROGRAM],
        env: { TMPDIR: folder },
        stdin: "null",
        stdout: "piped",
        stderr: "inherit",
      }).spawn();
      let shown = "";
      const reading = process.stdout.pipeThrough(new TextDecoderStream())
        .pipeTo(new WritableStream({ write: (text) => void (shown += text) }));
      const urls: string[] = [];
      let ended = false;
      const status = process.status.finally(() => ended = true);
      try {
        await until("the tour", () => ended || shown.includes("Ctrl-C ends all of it."));
        assert(!ended, "it has ended by itself");
        const console = /The console of all: (http:\S+)\/ui/.exec(shown)?.[1] ?? "";
        const second = /job run nap --url (http:\S+)/.exec(shown)?.[1] ?? "";
        urls.push(console, second);
        assertEquals((await fetch(`${console}/ui`)).status, 200);
        const listed = await (await fetch(`${console}/agent/v1/hosts`)).json() as JsonObject[];
        assertEquals(listed.map(({ name, state, this_host }) => [name, state, this_host]), [
          ["gz01", "connected", true],
          ["gz02", "connected", false],
          ["gz03", "connected", false],
        ]);
        const [nap] = await (await fetch(`${console}/workflows?name=nap`)).json() as JsonObject[];
        const headers = { "content-type": "application/json" };
        const body = JSON.stringify({ workflow: nap?.uuid ?? null });
        const { uuid } = await jsonAt(`${second}/jobs`, { method: "POST", headers, body });
        await until(
          "the job to run on its host",
          async () => (await jsonAt(`${console}/agent/v1/hosts/gz02`)).running === 1,
        );
        assertEquals((await jsonAt(`${console}/jobs/${uuid}`)).execution, "running");
        await fetch(`${console}/jobs/${uuid}/cancel`, { method: "POST", headers, body: "{}" });
      } finally {
        if (!ended) process.kill("SIGINT");
      }
      assertEquals((await status).code, 0);
      await reading;
      assert(shown.includes("have ended"));
      for (const url of urls) assert(await isClosed(url), `${url} answers`);
      assertEquals(Array.from(Deno.readDirSync(folder), ({ name }) => name), []);
    }),
);

async function isClosed(url: string): Promise<boolean> {
  return await fetch(`${url}/healthz`).then(async (answer) => {
    await answer.body?.cancel();
    return false;
  }, () => true);
}
