// A program that syncs once whenever it reads a line, and says so. Its test kills it meanwhile.

import { openProgramMirror } from "./program_mirror.ts";

const [path = "", upstream = "", cacheDir = ""] = Deno.args;
const { mirror, say, close } = await openProgramMirror({ path, upstream, cacheDir });
await say("ready");
for await (const _line of Deno.stdin.readable) {
  await say((await mirror.sync()).outcome);
}
await close();
