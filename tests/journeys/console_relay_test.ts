// `machine console --listen` leads a viewer to the screen of a machine, whichever way it reaches the agent.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "@std/path";
import { makeCertificate } from "../http/tls_files.ts";
import { type Program, runProgram, startAgentProcess } from "../support/agent_process.ts";
import { eachProgram } from "../support/each_program.ts";
import { withFolder } from "../support/until.ts";

const MACHINE = "0f5c9a2e-6d1b-4c3a-9e8f-1a2b3c4d5e6f";
const BANNER = "RFB 003.008\n";
const WORKFLOW = {
  name: "boot",
  chain: [{
    name: "boot",
    body: `async (job, cb) => {
      await vmadm.create({ uuid: "${MACHINE}", brand: "kvm", ram: 128, autoboot: false });
      await vmadm.boot("${MACHINE}");
      await vnc.wait("${MACHINE}");
      cb();
    }`,
  }],
};

/** What a viewer reads first through a relay that reaches its agent this way. */
async function bannerThrough(program: Program, way: readonly string[]): Promise<string> {
  const relay = new Deno.Command(program.program, {
    args: [
      ...[...program.args, "machine", "console", MACHINE],
      ...["--listen", "127.0.0.1:0", "--json", ...way],
    ],
    env: program.env,
    clearEnv: true,
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  try {
    let text = "";
    for await (const part of relay.stdout.pipeThrough(new TextDecoderStream())) {
      text += part;
      if (text.trimEnd().endsWith("}")) break;
    }
    const viewer = await Deno.connect({ hostname: "127.0.0.1", port: JSON.parse(text).port });
    const bytes = new Uint8Array(BANNER.length);
    let count = 0;
    while (count < bytes.length) {
      const read = await viewer.read(bytes.subarray(count));
      if (read === null) break;
      count += read;
    }
    viewer.close();
    return new TextDecoder().decode(bytes.subarray(0, count));
  } finally {
    relay.kill("SIGTERM");
    await relay.status;
  }
}

eachProgram(
  "a console is reached over a unix socket, and over TLS with an authority of one's own",
  (program) =>
    withFolder(async (folder) => {
      const { certPath, keyPath } = await makeCertificate(folder, "own");
      const socket = join(folder, "agent.sock");
      const tls = ["--tls-cert", certPath, "--tls-key", keyPath];
      const flags = ["--host", "simulated", "--socket", socket, ...tls];
      const agent = await startAgentProcess(program, join(folder, "state"), flags);
      try {
        const file = join(folder, "boot.json");
        await Deno.writeTextFile(file, JSON.stringify(WORKFLOW));
        for (const words of [["workflow", "apply", "-f", file], ["job", "run", "boot", "--wait"]]) {
          const { code, stderr } = await runProgram(program, [...words, "--socket", socket]);
          assertEquals([code, code === 0 ? "" : stderr], [0, ""]);
        }
        const secured = ["--url", agent.url, "--ca", certPath];
        assertEquals(await bannerThrough(program, ["--socket", socket]), BANNER);
        assertEquals(await bannerThrough(program, secured), BANNER);
        const untrusted = ["machine", "vnc", MACHINE, "--url", agent.url];
        const { code, stderr } = await runProgram(program, untrusted);
        assert(code !== 0);
        assertMatch(stderr, /certificate/i);
      } finally {
        assertEquals(await agent.stop(), 0);
        await agent.simulate("stop-all");
      }
    }),
  "openssl",
);
