// The doctor as a command, at a real agent's side.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import { agentCheck } from "../../src/service/doctor/access.ts";
import { type App, listen } from "../../src/http/server.ts";
import { readTlsIdentity } from "../../src/http/listen/listener.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { makeCertificate } from "../http/tls_files.ts";
import { GRACE_MS, LISTENING } from "../support/listening.ts";
import { programTest } from "../support/program.ts";
import { programOfRun, runProgram, startAgentProcess } from "../support/agent_process.ts";
import { withFolder } from "../support/until.ts";

interface Line {
  readonly name: string;
  readonly outcome: string;
  readonly detail: string;
  readonly repaired: boolean;
}

async function doctor(
  ...words: string[]
): Promise<{ code: number; lines: Line[]; stderr: string }> {
  const { code, stdout, stderr } = await runProgram(programOfRun(), [
    "doctor",
    "--json",
    ...words,
  ]);
  return { code, lines: stdout === "" ? [] : JSON.parse(stdout), stderr };
}

Deno.test("beside a running agent all checks pass, and its machines keep running", () =>
  withFolder(async (folder) => {
    const agent = await startAgentProcess(programOfRun(), join(folder, "state"), ["--dev"]);
    try {
      const port = new URL(agent.url).port;
      const place = ["--dev", "--state-dir", agent.stateDir, "--listen", `127.0.0.1:${port}`];
      const { code, lines, stderr } = await doctor(...place);
      assertEquals(lines.filter(({ outcome }) => outcome === "fail"), [], stderr);
      assertEquals(code, 0);
      assertEquals(lines.find(({ name }) => name === "agent")?.outcome, "ok");
      assertEquals((await agent.get("/ping")).status, 200);
    } finally {
      await agent.stop();
    }
  }));

Deno.test("before the first start nothing is missing, and the simulated host answers", () =>
  withFolder(async (folder) => {
    const place = ["--dev", "--state-dir", join(folder, "state")];
    const { code, lines, stderr } = await doctor(...place, "--run", "state", "--run", "vmadm");
    assertEquals(lines.map(({ outcome }) => outcome), ["skipped", "ok"], stderr);
    assertEquals(code, 0);
  }));

programTest(
  "openssl",
  "an agent that speaks TLS and wants a token has answered",
  () =>
    withFolder(async (folder) => {
      const { certPath, keyPath } = await makeCertificate(folder, "agent");
      const app: App = { fetch: () => new Response("a token, please", { status: 401 }) };
      const tls = await readTlsIdentity({ certPath, keyPath });
      // The certificate names the first address alone.
      for (const hostname of ["127.0.0.1", "127.0.0.2"]) {
        const options = {
          ...LISTENING,
          tcp: { hostname, port: 0 },
          tls,
          connections: DEFAULT_LIMITS,
          log: silentLog,
        };
        const server = await listen(app, options);
        try {
          const tcp = { hostname, port: server.port ?? 0 };
          const found = await agentCheck({ tcp, socket: null, tlsCert: certPath }).examine();
          assertEquals(found.outcome, "ok", found.detail);
        } finally {
          await server.shutdown(GRACE_MS);
        }
      }
    }),
);

Deno.test("the index of a development agent is examined, as its status shows it", () =>
  withFolder(async (folder) => {
    const state = join(folder, "state");
    const place = ["--state-dir", state, "--run", "index"];
    const found = await doctor("--dev", ...place);
    assertEquals(found.lines[0]?.detail, "the sample index was never synced");
    assertEquals((await doctor("--host", "simulated", ...place)).lines[0]?.outcome, "skipped");
  }));

Deno.test("an agent on a port chosen by the system is not reported as missing", async () => {
  const tcp = { hostname: "127.0.0.1", port: 0 };
  const { outcome } = await agentCheck({ tcp, socket: null, tlsCert: null }).examine();
  assertEquals(outcome, "skipped");
});

Deno.test("a state folder that is open to others is reported, and closed with --fix", () =>
  withFolder(async (folder) => {
    const state = join(folder, "state");
    await Deno.mkdir(state);
    await Deno.chmod(state, 0o755);
    const place = ["--dev", "--state-dir", state, "--run", "state"];
    const found = await doctor(...place);
    assertEquals([found.code, found.lines[0]?.outcome], [1, "fail"]);
    assertStringIncludes(found.lines[0]?.detail ?? "", "755");
    const mended = await doctor(...place, "--fix");
    assertEquals([mended.code, mended.lines[0]?.repaired], [0, true]);
    assertEquals(((await Deno.stat(state)).mode ?? 0) & 0o777, 0o700);
  }));

Deno.test("a state folder that is a file is reported once, and nothing in it is examined", () =>
  withFolder(async (folder) => {
    const state = join(folder, "state");
    await Deno.writeTextFile(state, "");
    const { lines } = await doctor(
      "--dev",
      "--state-dir",
      state,
      "--run",
      "state",
      "--run",
      "store",
    );
    assertEquals(lines.map(({ outcome }) => outcome), ["fail", "skipped"]);
  }));

Deno.test("files in the state folder that others could read are reported, and closed with --fix", () =>
  withFolder(async (folder) => {
    const state = join(folder, "state");
    await Deno.mkdir(state, { mode: 0o700 });
    await Deno.writeTextFile(join(state, "zonewright.db.schema-1"), "");
    await Deno.chmod(join(state, "zonewright.db.schema-1"), 0o644);
    const place = ["--dev", "--state-dir", state, "--run", "state"];
    const found = await doctor(...place);
    assertEquals([found.code, found.lines[0]?.outcome], [0, "warn"]);
    assertStringIncludes(found.lines[0]?.detail ?? "", "zonewright.db.schema-1");
    const mended = await doctor(...place, "--fix");
    assertEquals([mended.lines[0]?.outcome, mended.lines[0]?.repaired], ["ok", true]);
  }));

Deno.test("a configuration file that others may replace is reported, whatever its own mode", () =>
  withFolder(async (folder) => {
    const config = join(folder, "zonewright.toml");
    await Deno.writeTextFile(config, "");
    const words = ["--dev", "--config", config, "--run", "config"];
    assertEquals((await doctor(...words)).lines[0]?.outcome, "ok");
    await Deno.chmod(folder, 0o777);
    const found = await doctor(...words);
    assertEquals([found.code, found.lines[0]?.outcome], [1, "fail"]);
    assertStringIncludes(found.lines[0]?.detail ?? "", "anyone may replace");
    await Deno.chmod(folder, 0o700);
    await Deno.chmod(config, 0o666);
    assertEquals((await doctor(...words, "--fix")).lines[0]?.repaired, true);
    assertEquals(((await Deno.stat(config)).mode ?? 0) & 0o777, 0o644);
  }));

Deno.test("an unknown check is a usage error that names the nearest one", async () => {
  const { code, stderr } = await doctor("--dev", "--run", "sate");
  assertEquals(code, 2);
  assert(stderr.includes("state"), stderr);
});
