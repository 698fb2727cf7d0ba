// `zonewright doctor --smartos-trial` as a whole, on a host that stands in for one of SmartOS.

import { assertEquals, assertMatch } from "@std/assert";
import { join } from "@std/path";
import { cannotRefuse, majorOf } from "../../../vendors/node/options.ts";
import { eachNode } from "../../support/each_node.ts";
import { NEEDS_HOST, withSmartosHost } from "./smartos_host.ts";

eachNode("the trial on SmartOS runs its ten commands and leaves nothing", async (node) => {
  await withSmartosHost(node.program, async ({ file, root, state, run }) => {
    const report = "/opt/home/report.txt";
    const { code, stdout, stderr } = await run(file, "doctor", "--smartos-trial", report);
    const text = await Deno.readTextFile(root + report).catch(() => stderr);
    const titles = [...text.matchAll(/^## \d+\. (.*)$/gm)].map(([, title]) => title);
    assertEquals(titles.length, 10, text);
    // The stand-in of ppriv takes no network away, which some Nodes cannot refuse.
    const open = cannotRefuse(majorOf(node.version)).includes("net");
    const failed = [...stderr.matchAll(/^FAIL (.*)$/gm)].map(([, title]) => title);
    assertEquals(failed, open ? ["the walls of guests and decoders"] : [], text);
    assertEquals([code, stdout.trim()], [open ? 1 : 0, report]);
    assertMatch(text, /^SunOS smartos 5\.11/m);
    assertMatch(text, new RegExp(`^node +${node.version}$`, "m"));
    assertMatch(text, /privileges +it has none of .*file_write/);
    assertEquals(((await Deno.stat(root + report)).mode ?? 0) & 0o777, 0o600);
    const left = await Array.fromAsync(Deno.readDir(join(state, "machines")), ({ name }) => name)
      .catch(() => []);
    assertEquals(left, []);
    assertEquals([...Deno.readDirSync(`${root}/var/tmp`)], []);
  });
}, NEEDS_HOST);
