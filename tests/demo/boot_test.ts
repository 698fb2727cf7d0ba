// The sample media are booted in an emulator, and its text screen is compared letter by letter.

import { assertEquals } from "@std/assert";
import { sampleDisk, sampleIso } from "../../src/simulator/outside/sample_file.ts";
import { programTest } from "../support/program.ts";
import { until, withFolder } from "../support/until.ts";

const EMULATOR = "qemu-system-x86_64";
const COLUMNS = 80;
const LINES = 25;
/** Where a VGA adapter keeps its text: a character and its colour, in turn. */
const TEXT_MEMORY = 0xb8000;
const BOOT_DEADLINE_MS = 180_000;

/** One emulated machine, spoken to by QMP. @see the QEMU QMP reference manual */
interface Machine {
  execute(command: string, args?: Record<string, unknown>): Promise<unknown>;
}

async function withMachine(
  folder: string,
  media: readonly string[],
  run: (machine: Machine) => Promise<void>,
): Promise<void> {
  const socket = `${folder}/qmp`;
  const child = new Deno.Command(EMULATOR, {
    args: [
      ...["-m", "32", "-display", "none", "-vga", "std", "-net", "none", "-no-user-config"],
      ...["-qmp", `unix:${socket},server=on,wait=off`],
      ...media,
    ],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  try {
    using connection = await until("the emulator", () => {
      return Deno.connect({ transport: "unix", path: socket }).catch(() => undefined);
    });
    const machine = speakQmp(connection);
    await machine.execute("qmp_capabilities");
    await run(machine);
  } finally {
    child.kill("SIGKILL");
    await child.status;
  }
}

function speakQmp(connection: Deno.UnixConn): Machine {
  const lines: string[] = [];
  let rest = "";
  const decoder = new TextDecoder();
  const nextLine = async (): Promise<string> => {
    const buffer = new Uint8Array(16_384);
    while (lines.length === 0) {
      const count = await connection.read(buffer);
      if (count === null) throw new Error("The emulator has ended");
      const parts = (rest + decoder.decode(buffer.subarray(0, count))).split("\n");
      rest = parts.pop() ?? "";
      lines.push(...parts);
    }
    return lines.shift() ?? "";
  };
  return {
    async execute(command, args = {}) {
      const request = JSON.stringify({ execute: command, arguments: args });
      await connection.write(new TextEncoder().encode(`${request}\n`));
      // The greeting and events stand between the answers.
      for (;;) {
        const message = JSON.parse(await nextLine());
        if ("return" in message) return message.return;
        if ("error" in message) throw new Error(`${command}: ${message.error.desc}`);
      }
    },
  };
}

async function readScreen(machine: Machine, folder: string): Promise<string[]> {
  const filename = `${folder}/screen`;
  const size = COLUMNS * LINES * 2;
  await machine.execute("pmemsave", { val: TEXT_MEMORY, size, filename });
  const characters = (await Deno.readFile(filename)).filter((_, at) => at % 2 === 0);
  return Array.from({ length: LINES }, (_, line) => {
    const codes = characters.subarray(line * COLUMNS, (line + 1) * COLUMNS);
    return String.fromCharCode(...codes).replaceAll("\0", " ").trimEnd();
  });
}

/** Boots the media and compares the screen once its last line is there and the processor halts. */
async function assertBoots(
  folder: string,
  media: readonly string[],
  lines: readonly string[],
): Promise<void> {
  await withMachine(folder, media, async (machine) => {
    const last = lines[lines.length - 1];
    const screen = await until(`the screen to show ${JSON.stringify(last)}`, async () => {
      const shown = await readScreen(machine, folder);
      return shown.includes(last ?? "") && shown;
    }, BOOT_DEADLINE_MS);
    assertEquals(screen, [...lines, ...new Array<string>(LINES - lines.length).fill("")]);
    await until("the processor to halt", async () => {
      const args = { "command-line": "info registers" };
      return String(await machine.execute("human-monitor-command", args)).includes("HLT=1");
    }, BOOT_DEADLINE_MS);
  });
}

programTest(
  EMULATOR,
  "the sample ISO image boots from a CD, shows its lines and halts",
  async () => {
    await withFolder(async (folder) => {
      const path = `${folder}/sample.iso`;
      await Deno.writeFile(path, ReadableStream.from(sampleIso(8 << 20).chunks()));
      await assertBoots(folder, ["-cdrom", path, "-boot", "order=d"], [
        "zonewright sample installation medium",
        "",
        "This machine has booted from the CD that its request named.",
        "Nothing is installed by it.",
      ]);
    });
  },
);

programTest(
  EMULATOR,
  "the sample disk image boots from a disk, shows its lines and halts",
  async () => {
    await withFolder(async (folder) => {
      const path = `${folder}/sample.raw`;
      const packed = new Blob([await sampleDisk("the title of a disk")]).stream();
      await Deno.writeFile(path, packed.pipeThrough(new DecompressionStream("gzip")));
      const drive = `file=${path},format=raw,if=ide`;
      await assertBoots(folder, ["-drive", drive, "-boot", "order=c"], [
        "the title of a disk",
        "",
        "This machine has booted from its disk.",
        "There is no system.",
      ]);
    });
  },
);
