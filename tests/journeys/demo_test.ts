// What a newcomer sees first: one command from nothing to a console, and nothing left afterwards.

import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { RfbClient } from "../host/simulator/rfb_client.ts";
import type { Program } from "../support/agent_process.ts";
import { until, withFolder } from "../support/until.ts";
import { eachProgram } from "../support/each_program.ts";

/** The binary copied alone into an empty folder; from source, the sources where they are. */
async function aloneIn(folder: string, program: Program): Promise<Program> {
  if (program.name === "source") return program;
  const copy = join(folder, "zonewright");
  await Deno.copyFile(program.program, copy);
  return { ...program, program: copy };
}

eachProgram(
  "demo makes a first machine in an empty folder, and leaves nothing after Ctrl-C",
  (program) =>
    withFolder(async (folder) => {
      const { program: path, args, env } = await aloneIn(folder, program);
      const temporary = join(folder, "tmp");
      const cwd = join(folder, "cwd");
      await Deno.mkdir(temporary);
      await Deno.mkdir(cwd);
      const process = new Deno.Command(path, {
        args: [...args, "demo", "--listen", "127.0.0.1:0"],
        clearEnv: true,
        env: { ...env, TMPDIR: temporary },
        cwd,
        stdin: "null",
        stdout: "piped",
        stderr: "piped",
      }).spawn();
      let shown = "";
      const sink = () => new WritableStream<string>({ write: (text) => void (shown += text) });
      const reading = Promise.all([
        process.stdout.pipeThrough(new TextDecoderStream()).pipeTo(sink()),
        process.stderr.pipeThrough(new TextDecoderStream()).pipeTo(sink()),
      ]);
      try {
        await until(() => `the tour:\n${shown}`, () => shown.includes("Look around"));
        const port = Number(/^vnc +127\.0\.0\.1:(\d+)/m.exec(shown)?.[1]);
        const url = /curl (http:\S+)\/stats/.exec(shown)?.[1];
        const machines = `${url}/agent/v1/machines`;
        const listed: { alias: string; uuid: string }[] = await (await fetch(machines)).json();
        assertEquals(listed.map(({ alias }) => alias).sort(), [
          "database",
          "first-machine",
          "web-1",
        ]);
        const uuid = listed.find(({ alias }) => alias === "first-machine")?.uuid;
        const { vnc } = await (await fetch(`${machines}/${uuid}/vnc`)).json();
        await until("the password to be shown", () => shown.includes(vnc.password));
        using client = await RfbClient.connect(port);
        await client.handshake("3.8", vnc.password);
        const stats = await (await fetch(`${url}/stats`)).json();
        const { succeeded, failed, waiting } = stats.current;
        assertEquals({ succeeded, failed, waiting }, { succeeded: 4, failed: 1, waiting: 1 });
      } finally {
        process.kill("SIGINT");
      }
      assertEquals((await process.status).code, 0);
      await reading;
      const port = Number(/^vnc +127\.0\.0\.1:(\d+)/m.exec(shown)?.[1]);
      const gone = await RfbClient.connect(port).then(
        (client) => client[Symbol.dispose](),
        () => true,
      );
      assert(gone === true, "the machine goes on after its host has ended");
      assertEquals(Array.from(Deno.readDirSync(temporary), ({ name }) => name), []);
      assertEquals(Array.from(Deno.readDirSync(cwd), ({ name }) => name), []);
    }),
);
