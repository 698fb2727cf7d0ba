// A program that downloads one file and says its digest. Its test kills it meanwhile.

import { openProgramMirror } from "./program_mirror.ts";

const [path = "", url = "", value = "", cacheDir = ""] = Deno.args;
const { mirror, say, close } = await openProgramMirror({ path, upstream: url, cacheDir });
const medium = await mirror.downloadUrl(url, { algorithm: "sha256", value });
await say(`done ${medium.sha256}`);
await close();
