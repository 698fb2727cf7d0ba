// The log and its reader: what one that is slow, gone or full does to the agent.

import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { openLogStream } from "../../src/metrics/log_output.ts";
import { until, withFolder } from "../support/until.ts";
import { eachProgram } from "../support/each_program.ts";

const decoder = new TextDecoder();

Deno.test("lines are written whole and in order, however little the reader takes at a time", async () => {
  let text = "";
  const stream = openLogStream({
    write: (bytes) => {
      const taken = bytes.subarray(0, 3);
      text += decoder.decode(taken);
      return Promise.resolve(taken.length);
    },
    lost: () => {},
  });
  for (const line of ["first", "second", "third"]) stream.write(line);
  await stream.flush(20_000);
  assertEquals(text, "first\nsecond\nthird\n");
});

Deno.test("lines that arrive together are one write", async () => {
  const writes: string[] = [];
  const stream = openLogStream({
    write: (bytes) => {
      writes.push(decoder.decode(bytes));
      return Promise.resolve(bytes.length);
    },
    lost: () => {},
  });
  for (const line of ["first", "second"]) stream.write(line);
  await Promise.resolve();
  stream.write("third");
  await stream.flush(20_000);
  assertEquals(writes, ["first\nsecond\nthird\n"]);
});

Deno.test("lines beyond the limit are lost, counted, and reported when there is room again", async () => {
  const gate = Promise.withResolvers<void>();
  let text = "";
  const stream = openLogStream({
    write: async (bytes) => {
      await gate.promise;
      text += decoder.decode(bytes);
      return bytes.length;
    },
    lost: (lines) => stream.write(`lost ${lines}`),
  });
  // Two of these, with their line breaks, are all that may wait.
  const half = "x".repeat(2 * 1024 * 1024 - 1);
  for (const line of [half, half, "no room", "no room"]) stream.write(line);
  await stream.flush(1);
  assertEquals(text, "");
  gate.resolve();
  await stream.flush(20_000);
  assert(text === `${half}\n${half}\nlost 2\n`, text.slice(-100));
});

Deno.test("a reader that is gone loses its lines; a full one causes a pause", async () => {
  const answers = [
    new Deno.errors.BrokenPipe("Broken pipe (os error 32)"),
    new Deno.errors.WouldBlock("Resource temporarily unavailable (os error 11)"),
  ];
  let text = "";
  const stream = openLogStream({
    write: (bytes) => {
      const error = answers.shift();
      if (error !== undefined) return Promise.reject(error);
      text += decoder.decode(bytes);
      return Promise.resolve(bytes.length);
    },
    lost: () => {},
  });
  stream.write("to nobody");
  await stream.flush(20_000);
  stream.write("later");
  await stream.flush(20_000);
  assertEquals(text, "later\n");
});

/** What a pipe holds on Linux, and more than the runtime's own buffers add. */
const PIPE_BYTES = 256 * 1024;

eachProgram(
  "an agent whose log nobody reads keeps answering, and stops on a signal",
  async ({ program, args, env }) => {
    await withFolder(async (folder) => {
      const socket = join(folder, "agent.sock");
      const process = new Deno.Command(program, {
        args: [
          ...args,
          "serve",
          ...["--dev", "--listen", "off", "--socket", socket],
          ...["--state-dir", join(folder, "state"), "--log-level", "debug"],
        ],
        env: { ...env },
        clearEnv: true,
        cwd: "/",
        stdin: "null",
        stdout: "null",
        stderr: "piped",
      }).spawn();
      const client = Deno.createHttpClient({ proxy: { transport: "unix", path: socket } });
      try {
        const ask = async (path: string) => {
          const answer = await fetch(`http://localhost${path}`, { client });
          await answer.body?.cancel();
          return answer.status;
        };
        await until("the agent to listen", () => ask("/healthz").catch(() => undefined));
        const path = `/nothing/${"x".repeat(200)}`;
        // Each leaves a line of more than twice the length of its path.
        for (let bytes = 0; bytes < PIPE_BYTES; bytes += path.length * 2) {
          assertEquals(await ask(path), 404);
        }
        assertEquals(await ask("/healthz"), 200);
      } finally {
        process.kill("SIGTERM");
        const { code } = await process.status;
        const text = await new Response(process.stderr).text();
        client.close();
        assertEquals(code, 0);
        assert(text.includes('"agent started"'));
      }
    });
  },
);
