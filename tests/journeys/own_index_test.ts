// docs/mirror.md: the index of one image of the reader's own, by the commands of the page as they are written.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { startAgentProcess } from "../support/agent_process.ts";
import { until, withFolder } from "../support/until.ts";
import { eachProgram } from "../support/each_program.ts";

const PAGE = fromFileUrl(new URL("../../docs/mirror.md", import.meta.url));
const SERVE = /^zonewright serve (.*)$/;

async function blocksOf(heading: string): Promise<string[]> {
  const section = (await Deno.readTextFile(PAGE)).split(/^## /m)
    .find((one) => one.startsWith(`${heading}\n`));
  assert(section !== undefined, `docs/mirror.md has no section ${heading}`);
  return Array.from(section.matchAll(/^```sh\n(.*?)^```$/gms), ([, text = ""]) => text.trim());
}

eachProgram(
  "docs/mirror.md: the documents of a folder are synced, found and shown as the page says",
  (program) =>
    withFolder(async (folder) => {
      const [documents = "", serve = "", look = ""] = await blocksOf("The shape of an index");
      const [, flags = ""] = SERVE.exec(serve) ?? [];
      const wrapper = join(folder, "zonewright");
      const words = [program.program, ...program.args].map((word) => `'${word}'`).join(" ");
      await Deno.writeTextFile(wrapper, `#!/bin/sh\nexec ${words} "$@"\n`, { mode: 0o755 });
      await Deno.writeTextFile(join(folder, "house.iso"), "an image");
      const shell = async (script: string, env: Record<string, string> = {}) => {
        const { code, stdout, stderr } = await new Deno.Command("bash", {
          args: ["-euo", "pipefail", "-c", script],
          cwd: folder,
          clearEnv: true,
          env: { ...program.env, PATH: `${folder}:${Deno.env.get("PATH") ?? ""}`, ...env },
          stdin: "null",
        }).output();
        const decoder = new TextDecoder();
        const text = decoder.decode(stdout);
        assertEquals([script, code], [script, 0], text + decoder.decode(stderr));
        return text;
      };
      await shell(documents);
      const given = (await shell(`printf '%s\\n' ${flags}`)).trim().split("\n");
      const agent = await startAgentProcess(program, join(folder, "state"), given);
      try {
        const shown = await shell(look, { ZONEWRIGHT_URL: agent.url });
        assertStringIncludes(shown, "complete");
        assertStringIncludes(shown, "house   1        20260101  -        x86_64  iso");
        assertStringIncludes(shown, "https://images.example.com/house.iso");
        const index = await until("the sync of the start", async () => {
          const { body } = await agent.get("/agent/v1/index");
          return body.syncing === false ? body : undefined;
        });
        const { outcome, problems } = index.last_sync as Record<string, unknown>;
        assertEquals([index.documents, outcome, problems], [4, "complete", []]);
      } finally {
        await agent.stop();
      }
    }),
);
