// A process that has a decoder at work and waits to be killed. It writes the decoder's process id.

import { openDecoders } from "../../src/decoder/pool.ts";
import { silentLog } from "../../src/metrics/log.ts";

const decoders = openDecoders({ self: JSON.parse(Deno.args[0] ?? ""), log: silentLog });
const input = async function* () {
  await Promise.resolve();
  console.log(decoders.pids()[0]);
  await new Promise(() => setInterval(() => {}, 60_000));
  yield new Uint8Array(1);
};
await decoders.ask("task_sources", {}, input(), { what: "wait" });
