// A VNC client that is not ours, which needs no display: through `machine console --listen` it sees
// the screen of a machine, with the password and not without.

import { assert, assertEquals, assertNotEquals } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { desEncipher } from "../../src/simulator/console/handshake.ts";
import { waitForVnc } from "../../src/host/vmadm/vnc.ts";
import { openScreen } from "../cli/screen.ts";
import { machine } from "../domain/machine_request.ts";
import { objectOf } from "../http/http_agent.ts";
import { DEADLINE_MS, MACHINE, withHost } from "../http/machine_agent.ts";
import { programTest } from "../support/program.ts";
import { until, withFolder } from "../support/until.ts";

/** With this key every VNC client writes its password file; it is a disguise and no secret. */
const FILE_KEY = [0xe8, 0x4a, 0xd6, 0x60, 0xc4, 0x72, 0x1a, 0xe0];

async function passwordFile(path: string, password: string): Promise<string> {
  const block = new Uint8Array(8);
  block.set(new TextEncoder().encode(password));
  await Deno.writeFile(path, desEncipher(new Uint8Array(FILE_KEY), block));
  return path;
}

programTest(
  "vncsnapshot",
  "a viewer sees the screen of a machine, if it knows the password",
  () =>
    withHost((agent, vmadm) =>
      withFolder(async (folder) => {
        await vmadm.create({ ...machine, autoboot: false, uuid: MACHINE, vnc_password: true });
        await vmadm.boot(MACHINE, {});
        await waitForVnc(vmadm, MACHINE, { deadlineMs: DEADLINE_MS });
        const info = objectOf(await agent.call("GET", `/agent/v1/machines/${MACHINE}/vnc`));
        const password = String((info.vnc as JsonObject).password);
        const screen = openScreen({ env: { ZONEWRIGHT_URL: agent.url } });
        const ended = screen.run("machine", "console", MACHINE, "--listen", "127.0.0.1:0");
        const port = await until(
          "the relay",
          () => /^127\.0\.0\.1:(\d+)\n/.exec(screen.out())?.[1],
        );
        // What it takes behind the colon is a display, whose port is so much higher.
        const display = `127.0.0.1:${Number(port) - 5900}`;
        try {
          const view = async (picture: string, shown: string) => {
            const file = await passwordFile(`${folder}/password`, shown);
            const args = ["-quiet", "-passwd", file, display, picture];
            return (await new Deno.Command("vncsnapshot", { args, stderr: "null" }).output()).code;
          };
          assertNotEquals(await view(`${folder}/none.jpg`, "wrong"), 0);
          assertEquals(await view(`${folder}/screen.jpg`, password), 0);
          const picture = await Deno.readFile(`${folder}/screen.jpg`);
          assertEquals([...picture.subarray(0, 3)], [0xff, 0xd8, 0xff]);
          assert(picture.length > 10_000, `${picture.length} bytes`);
        } finally {
          screen.interrupt();
          assertEquals(await ended, 0);
        }
      })
    ),
);
