// Machines that an emulator really boots: from a request to the agent to the words that a boot loader
// writes on the screen, read from the pixels that a VNC client gets.

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import { bootSector } from "../../src/simulator/outside/sample_file.ts";
import { assertNothingLeft, programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { findProgram, programTest, requireProgram } from "../support/program.ts";
import { until, withFolder } from "../support/until.ts";
import { RfbClient } from "./simulator/rfb_client.ts";
import {
  otherPayload,
  payload,
  type SimulatedHost,
  UUID,
  withHost,
} from "./simulator/simulated_host.ts";
import { readTextScreen } from "./simulator/text_screen.ts";

const EMULATOR = "qemu-system-x86_64";
/** A boot loader that introduces itself, from Debian's package ipxe. */
const IPXE = "/usr/lib/ipxe/ipxe.iso";
/** Emulation is slow, and the machine under test may be busy. */
const BOOT_MS_MAX = 120_000;
/** A run that skips nothing fails where something is missing. */
const MUST_RUN = Deno.env.get("ZONEWRIGHT_TEST_REQUIRE") === "all";
const SMALL: JsonObject = { ram: 64, disks: [{ boot: true, model: "virtio", size: 16 }], nics: [] };

function isThere(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** Emulators that run for the machines of a host, by the folder that their words name. */
function emulatorsOf(dir: string): string[] {
  return Array.from(Deno.readDirSync("/proc"), ({ name }) => name).filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      const words = Deno.readTextFileSync(`/proc/${pid}/cmdline`).split("\0");
      return words[0]?.endsWith(EMULATOR) === true && words.some((word) => word.includes(dir));
    } catch {
      return false; // it has ended since the folder was read
    }
  });
}

async function chooseQemu(host: SimulatedHost): Promise<void> {
  const emulator = findProgram(EMULATOR);
  assert(emulator !== undefined);
  const file = join(host.dir, "host.json");
  await host.run(["engine"]);
  const facts = JSON.parse(await Deno.readTextFile(file));
  await Deno.writeTextFile(file, JSON.stringify({ ...facts, engine: "qemu", emulator }));
}

interface VncConsole {
  readonly port: number;
  readonly password?: string;
}

const consoleOf = (host: SimulatedHost, uuid: string, password?: string) => async () => ({
  port: await host.vncPort(uuid),
  ...(password === undefined ? {} : { password }),
});

/** The lines on the screen once one of them has these words. */
async function screenWith(words: string, console: () => Promise<VncConsole>): Promise<string[]> {
  let last: string[] = [];
  try {
    return await until(`"${words}" on the screen`, async () => {
      const { port, password } = await console();
      last = await readTextScreen(port, password) ?? last;
      return last.some((line) => line.includes(words)) ? last : null;
    }, BOOT_MS_MAX);
  } catch (cause) {
    throw new Error(`The screen shows\n${last.join("\n")}`, { cause });
  }
}

Deno.test({
  name: "an ISO named in a request boots, and its screen is visible over VNC " +
    `[needs ${EMULATOR} and ipxe.iso]`,
  ignore: !MUST_RUN && (findProgram(EMULATOR) === undefined || !isThere(IPXE)),
  fn: async () => {
    requireProgram(EMULATOR);
    if (!isThere(IPXE)) throw new Error(`Cannot boot ${IPXE}: Debian has it in the package ipxe`);
    await withFolder(async (folder) => {
      const media = join(folder, "media");
      await Deno.mkdir(media);
      await Deno.copyFile(IPXE, join(media, "ipxe.iso"));
      await Deno.writeFile(join(media, "empty.img"), new Uint8Array(1 << 20));
      const flags = ["--dev", "--media-dir", media, "--simulated-engine", "auto"];
      const env = { PATH: Deno.env.get("PATH") ?? "" };
      const program = programOfRun();
      const withPath = { ...program, env: { ...program.env, ...env } };
      const agent = await startAgentProcess(withPath, join(folder, "state"), flags);
      try {
        const make = async (path: string, boot: string) => {
          const request = { machine: { ...SMALL, brand: "kvm" }, media: { path }, boot };
          const { status, body } = await agent.post("/agent/v1/machines", request);
          assertEquals(status, 202, JSON.stringify(body));
          const job = await agent.job(String(body.job_uuid), "success", "failure");
          assertEquals(job.execution, "success", JSON.stringify(job.chain_results));
          return async () => {
            const args = ["vmadm", "info", String(body.uuid), "vnc"];
            return JSON.parse((await agent.simulate(...args)).stdout).vnc;
          };
        };
        const booted = await screenWith("iPXE", await make("ipxe.iso", "cd"));
        const bare = await screenWith("No bootab", await make("empty.img", "disk"));
        assert(!bare.some((line) => line.includes("iPXE")), bare.join("\n"));
        assert(booted.join("") !== bare.join(""));
        await assertNothingLeft(agent);
        assertEquals(emulatorsOf(folder).length, 2);
      } finally {
        assertEquals(await agent.stop(), 0, agent.log());
      }
      await until("the emulators to end", () => emulatorsOf(folder).length === 0);
    });
  },
});

programTest(EMULATOR, "an emulator lives exactly as long as its machine", async () => {
  await withHost(async (host) => {
    await chooseQemu(host);
    await host.create(payload(SMALL));
    const running = () => emulatorsOf(host.dir).length;
    const boot = async () => {
      assertEquals(
        (await host.vmadm(["boot", UUID])).stderr,
        `Successfully started VM ${UUID}\n`,
      );
      assertEquals(running(), 1);
    };
    await boot();
    await host.vmadm(["stop", UUID, "-F"]);
    await until("the emulator to end with a forced stop", () => running() === 0);
    await boot();
    await host.run(["guest", UUID, "crash"]);
    await until("the emulator to end with a crash", () => running() === 0);
    assertEquals((await host.get(UUID)).state, "stopped");
    await boot();
    const [emulator] = emulatorsOf(host.dir);
    Deno.kill(Number(emulator), "SIGKILL");
    await until("the machine to end with its emulator", async () => {
      return (await host.get(UUID)).state === "stopped";
    });
    await boot();
    // The empty disk has no guest that would listen to a power button.
    await host.vmadm(["stop", UUID, "-t", "1"]);
    await until("the emulator to end with its machine's time", () => running() === 0);
    await boot();
    await host.vmadm(["delete", UUID]);
    await until("the emulator to end with the machine", () => running() === 0);
    assertEquals(JSON.parse((await host.run(["audit"])).stdout), { leftovers: [] });
  });
});

programTest(EMULATOR, "an emulator asks for the password, which may change on kvm", async () => {
  await withHost(async (host) => {
    await chooseQemu(host);
    await host.create(payload({ ...SMALL, vnc_password: "s3cret" }));
    await host.vmadm(["boot", UUID]);
    await screenWith("No bootab", consoleOf(host, UUID, "s3cret"));
    const port = await host.vncPort(UUID);
    const guess = async (password: string) => {
      using client = await RfbClient.connect(port);
      await client.handshake("3.8", password);
    };
    await assertRejects(() => guess("guess"), Error);
    await host.vmadm(["update", UUID, "vnc_password=other"]);
    await guess("other");
    await assertRejects(() => guess("s3cret"), Error);
    await host.run(["guest", UUID, "proxy-restart"]);
    await until("another port", async () => await host.vncPort(UUID) !== port);
    await screenWith("No bootab", consoleOf(host, UUID, "other"));
  });
});

programTest(EMULATOR, "a disk image boots, on kvm as a file and on bhyve as a volume", async () => {
  await withHost(async (host) => {
    await chooseQemu(host);
    const image = new Uint8Array(1 << 20);
    image.set(bootSector(["tidbit"]));
    await host.create(payload(SMALL));
    await Deno.writeFile(join(host.dir, "zones", UUID, "root/x.raw"), image);
    await host.vmadm(["boot", UUID, "disk=/x.raw,ide"]);
    await screenWith("tidbit", consoleOf(host, UUID));
    await host.vmadm(["stop", UUID, "-F"]);
    // What the guest writes to a file given at boot is forgotten.
    const kept = await Deno.readFile(join(host.dir, "zones", UUID, "root/x.raw"));
    assertEquals(kept, image);

    const disks = [{ boot: true, model: "virtio", size: 16 }];
    const other = otherPayload({ ...SMALL, brand: "bhyve", bootrom: "uefi", disks });
    await host.create(other);
    const uuid = String(other.uuid);
    await host.vmadm(["boot", uuid]);
    await screenWith("No bootab", consoleOf(host, uuid));
    await host.vmadm(["stop", uuid, "-F"]);
    const volume = join(host.dir, "volumes", `zones_${uuid}_disk0`);
    const file = await Deno.open(volume, { write: true });
    await file.write(image);
    file.close();
    await host.vmadm(["boot", uuid]);
    await screenWith("tidbit", consoleOf(host, uuid));
  });
});

programTest(
  EMULATOR,
  "an emulator that cannot start ends its machine at once, and says why in the log",
  async () => {
    await withHost(async (host) => {
      await chooseQemu(host);
      await host.create(payload({ ...SMALL, vcpus: 4000 }));
      const said = await host.vmadm(["boot", UUID]);
      assertEquals([said.code, said.stderr], [0, `Successfully started VM ${UUID}\n`]);
      // On a busy machine it runs for a moment.
      await until("the machine to end", async () => (await host.get(UUID)).state === "stopped");
      const log = await Deno.readTextFile(join(host.dir, "zones", UUID, "root/tmp/vm.log"));
      assertStringIncludes(log, "CPU");
      await host.vmadm(["delete", UUID]);
      assertEquals(JSON.parse((await host.run(["audit"])).stdout), { leftovers: [] });
    });
  },
);

Deno.test("the engine is fake until another is chosen; a missing one is refused", async () => {
  await withHost(async (host) => {
    const engine = async (...words: string[]) => await host.run(["engine", ...words]);
    assertEquals(JSON.parse((await engine()).stdout), { engine: "fake" });
    // The program runs here without PATH.
    const refused = await engine("qemu");
    assertEquals(
      [refused.code, refused.stderr],
      [1, `Cannot choose engine "qemu": no ${EMULATOR} on PATH\n`],
    );
    assertEquals(JSON.parse((await engine("auto")).stdout), { engine: "fake" });
    const unknown = await engine("xen");
    assertEquals(unknown.stderr, 'Cannot choose engine "xen", expected fake, qemu or auto\n');
  });
});
