// A renewed certificate is taken by an agent that runs, whatever else is wrong at that moment.

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { makeCertificate } from "../http/tls_files.ts";
import { startAgentProcess } from "../support/agent_process.ts";
import { withFolder } from "../support/until.ts";
import { eachProgram } from "../support/each_program.ts";

eachProgram(
  "a renewed certificate is served, even if the audit file cannot be reopened",
  (program) =>
    withFolder(async (folder) => {
      const first = await makeCertificate(folder, "first");
      const second = await makeCertificate(folder, "second");
      await Deno.mkdir(`${folder}/audit`);
      const flags = ["--host", "simulated", "--tls-cert", `${folder}/now.crt`];
      flags.push("--tls-key", `${folder}/now.key`, "--audit-file", `${folder}/audit/audit.log`);
      const put = async ({ certPath, keyPath }: typeof first) => {
        await Deno.copyFile(certPath, `${folder}/now.crt`);
        await Deno.copyFile(keyPath, `${folder}/now.key`);
      };
      await put(first);
      const agent = await startAgentProcess(program, `${folder}/state`, flags);
      try {
        const answers = async (certPath: string) => {
          const caCerts = [await Deno.readTextFile(certPath)];
          const client = Deno.createHttpClient({ caCerts });
          try {
            return await (await fetch(`${agent.url}/healthz`, { client })).json();
          } finally {
            client.close();
          }
        };
        assertEquals(await answers(first.certPath), { status: "ok" });
        await put(second);
        await Deno.remove(`${folder}/audit`, { recursive: true });
        agent.signal("SIGHUP");
        await agent.said("certificate read again");
        assertEquals(await answers(second.certPath), { status: "ok" });
        await assertRejects(() => answers(first.certPath));
        assertStringIncludes(await agent.said("configuration not read"), "audit.log");
      } finally {
        assertEquals(await agent.stop(), 0);
      }
    }),
  "openssl",
);
