// The engine that really boots a machine: an emulator with the machine's drives and a VNC server, which the listener
// of the host relays to, as the real host does. It has no network and no hardware acceleration, so it is slow, but
// runs wherever the emulator is installed. A keeper process kills the emulator as soon as this process is gone,
// however it ended.

import { join } from "@std/path";
import { AgentError, messageOf } from "../../domain/error.ts";
import { isJsonObject, type JsonObject, objectsIn } from "../../domain/json.ts";
import { type Engine, isBlind } from "./engine.ts";
import { type BootFile, changeMachine, type Machine, readMachine, zonepath } from "../machine.ts";
import { volumeFile, volumeOf } from "../pool.ts";
import { sleep, type State } from "../host_folder.ts";
import { writeAll } from "../../domain/bytes.ts";

/** How long the emulator may take until it accepts commands, milliseconds. */
const START_MS_MAX = 30_000;
const RETRY_MS = 10;
const MIB_BYTES = 1_048_576;

/**
 * Runs a program, kills it when standard input ends, and removes the folder of its sockets after it.
 * Arguments: the file for error messages, that folder, and the words of the program, which are never parsed
 * as script.
 */
const KEEPER = `exec 3<&0 </dev/null 2>"$1"
folder=$2
shift 2
"$@" 3<&- &
kept=$!
{ read -r never <&3; kill -9 "$kept"; } 2>/dev/null &
watch=$!
wait "$kept"
status=$?
kill "$watch" 2>/dev/null
/bin/rm -rf "$folder"
exit "$status"`;

/** Made for one start of a machine. */
export class QemuEngine implements Engine {
  readonly ended: Promise<number>;
  readonly #end = Promise.withResolvers<number>();
  readonly #state: State;
  readonly #uuid: string;
  /**
   * The folder of its sockets. It is not in the zone, since the path of a socket is limited to about a
   * hundred characters. The keeper removes it.
   */
  #folder = "";
  #keeper: Deno.ChildProcess | null = null;
  #qmp: Qmp | null = null;
  #password = "";
  #brand = "";

  constructor(state: State, uuid: string) {
    this.#state = state;
    this.#uuid = uuid;
    this.ended = this.#end.promise;
  }

  async boot(machine: Machine): Promise<void> {
    this.#brand = machine.brand;
    await this.#makeVolumes(machine);
    this.#folder = await Deno.makeTempDir({ prefix: "zonewright-vm-" });
    this.#keep(machine);
    this.#qmp = await this.#control();
    await this.#setPassword(String(machine.vm.vnc_password ?? ""));
    // Only the screen shows which medium a real guest has booted from.
    await changeMachine(this.#state, this.#uuid, (it) => it.booted = null);
  }

  async reset(): Promise<void> {
    await this.#qmp?.execute("system_reset");
  }

  async pressPowerButton(): Promise<void> {
    await this.#qmp?.execute("system_powerdown");
  }

  async serve(client: Deno.Conn): Promise<void> {
    // On kvm, a password set at boot can be changed live.
    if (this.#password !== "" && this.#brand === "kvm") {
      const machine = await readMachine(this.#state, this.#uuid);
      await this.#setPassword(String(machine?.vm.vnc_password ?? ""));
    }
    const server = await Deno.connect({ transport: "unix", path: join(this.#folder, VNC_SOCKET) });
    // The pipe that ends first closes both connections, which ends the other.
    await Promise.allSettled([
      client.readable.pipeTo(server.writable),
      server.readable.pipeTo(client.writable),
    ]);
  }

  async close(): Promise<void> {
    this.#qmp?.close();
    const keeper = this.#keeper;
    if (keeper === null) return;
    await keeper.stdin.close().catch(() => {});
    await keeper.status;
  }

  async #makeVolumes(machine: Machine): Promise<void> {
    for (const disk of objectsIn(machine.vm.disks)) {
      const volume = volumeOf(disk);
      if (volume === null) continue;
      await Deno.mkdir(join(this.#state.dir, "volumes"), { recursive: true });
      const path = volumeFile(this.#state, volume);
      const file = await Deno.open(path, { create: true, write: true });
      try {
        const bytes = Number(disk.size) * MIB_BYTES;
        if ((await file.stat()).size < bytes) await file.truncate(bytes);
      } finally {
        file.close();
      }
    }
  }

  #keep(machine: Machine): void {
    const root = join(zonepath(this.#state, this.#uuid), "root");
    const words = qemuWords(machine, {
      volume: (name) => volumeFile(this.#state, name),
      inZone: (path) => root + path,
    });
    const complaints = this.#complaints();
    this.#keeper = new Deno.Command("/bin/sh", {
      args: ["-c", KEEPER, "sh", complaints, this.#folder, this.#state.host.emulator, ...words],
      clearEnv: true,
      cwd: this.#folder,
      stdin: "piped",
      stdout: "null",
      stderr: "null",
    }).spawn();
    this.#keeper.status.then(({ code }) => this.#end.resolve(code));
  }

  #complaints(): string {
    return join(this.#state.dir, "processes", `${this.#uuid}.emulator`);
  }

  /** @throws {AgentError} `host` with its error messages when the emulator does not start */
  async #control(): Promise<Qmp> {
    const failure = this.#end.promise.then(async () => {
      const text = await Deno.readTextFile(this.#complaints()).catch(messageOf);
      throw new AgentError("host", `Cannot start qemu: ${text.trim()}`);
    });
    const path = join(this.#folder, QMP_SOCKET);
    const connected = async () => {
      const deadline = Date.now() + START_MS_MAX;
      for (;;) {
        try {
          return await Qmp.over(await Deno.connect({ transport: "unix", path }));
        } catch (error) {
          if (Date.now() > deadline) throw error;
          await sleep(RETRY_MS);
        }
      }
    };
    const connecting = connected();
    connecting.catch(() => {});
    const qmp = await Promise.race([connecting, failure]);
    failure.catch(() => {});
    return qmp;
  }

  async #setPassword(password: string): Promise<void> {
    if (password === this.#password) return;
    this.#password = password;
    await this.#qmp?.execute("set_password", { protocol: "vnc", password });
  }
}

/** Names of the sockets, in the folder that the emulator runs in. */
const VNC_SOCKET = "vm.vnc";
const QMP_SOCKET = "vm.qmp";

interface DriveFiles {
  volume(name: string): string;
  /** A file in the zone, by its path as the machine sees it. */
  inZone(path: string): string;
}

/** The words after the program. @throws {RangeError} when a path cannot be written as an option */
function qemuWords(machine: Machine, files: DriveFiles): string[] {
  const isKvm = machine.brand === "kvm";
  const password = String(machine.vm.vnc_password ?? "") === "" ? "" : ",password=on";
  return [
    ...["-name", `zonewright-${machine.uuid}`, "-nodefaults", "-no-user-config"],
    // A bhyve machine has AHCI, which is what IDE is on the emulator's q35.
    ...["-accel", "tcg", "-machine", isKvm ? "pc" : "q35", "-cpu", "max"],
    ...["-m", String(machine.vm.ram), "-smp", String(machine.vm.vcpus)],
    ...["-nic", "none", "-vga", isBlind(machine) ? "none" : "std"],
    ...["-display", "none", "-vnc", `unix:${VNC_SOCKET}${password}`],
    ...["-qmp", `unix:${QMP_SOCKET},server=on,wait=off`],
    ...["-device", "virtio-scsi-pci,id=scsi"],
    ...["-boot", isKvm ? machine.boot?.order ?? "order=cd" : "order=cd"],
    ...drivesOf(machine, files).flatMap(driveWords),
  ];
}

interface Drive {
  readonly file: string;
  readonly model: string;
  readonly media: "cdrom" | "disk";
  /** Whether the guest's writes are dropped at its end. */
  readonly isVolatile: boolean;
  /** Whether it is tried first. */
  readonly isFirst: boolean;
}

/** Files of the start come before the machine's own disks: CDs are tried in this order. */
function drivesOf(machine: Machine, files: DriveFiles): Drive[] {
  const given = (machine.boot?.files ?? []).map((file): Drive => ({
    ...file,
    file: files.inZone(file.path),
    isVolatile: true,
    // Which disk the real firmware prefers is not documented.
    isFirst: file.media === "disk",
  }));
  const own = objectsIn(machine.vm.disks).flatMap((disk): Drive[] => {
    const volume = volumeOf(disk);
    // A drive without a path is a device without a medium.
    if (volume === null && typeof disk.path !== "string") return [];
    const media: BootFile["media"] = disk.media === "cdrom" ? "cdrom" : "disk";
    const file = volume === null ? files.inZone(String(disk.path)) : files.volume(volume);
    return [{
      file,
      model: String(disk.model),
      media,
      isVolatile: volume === null,
      isFirst: false,
    }];
  });
  return [...given, ...own];
}

const DEVICES: Readonly<Record<string, Readonly<Record<Drive["media"], string>>>> = {
  ide: { disk: "ide-hd", cdrom: "ide-cd" },
  ahci: { disk: "ide-hd", cdrom: "ide-cd" },
  scsi: { disk: "scsi-hd,bus=scsi.0", cdrom: "scsi-cd,bus=scsi.0" },
  virtio: { disk: "virtio-blk-pci", cdrom: "virtio-blk-pci" },
  nvme: { disk: "nvme", cdrom: "nvme" },
};

function driveWords({ file, model, media, isVolatile, isFirst }: Drive, index: number): string[] {
  const id = `drive${index}`;
  const device = DEVICES[model]?.[media];
  if (device === undefined) throw new RangeError(`Cannot emulate a disk of model ${model}`);
  // A comma ends a word of the emulator unless it is doubled.
  const path = file.replaceAll(",", ",,");
  const writes = media === "cdrom" ? ",readonly=on" : isVolatile ? ",snapshot=on" : "";
  const serial = model === "nvme" ? `,serial=${id}` : "";
  return [
    ...["-drive", `if=none,id=${id},format=raw,file=${path}${writes}`],
    ...["-device", `${device},drive=${id}${serial}${isFirst ? ",bootindex=0" : ""}`],
  ];
}

/** Longest message of an emulator, characters. */
const MESSAGE_CHARS_MAX = 1 << 20;

/**
 * A control connection to one emulator. Commands go one after another; the end of the connection is
 * the end of the emulator.
 * @see the QEMU QMP reference manual
 */
class Qmp {
  readonly #conn: Deno.Conn;
  /** The answer to the current command. */
  #answer: PromiseWithResolvers<void> | null = null;
  #turn: Promise<void> = Promise.resolve();
  #lost = false;

  private constructor(conn: Deno.Conn) {
    this.#conn = conn;
  }

  /** Takes over a connection and makes it ready for commands. */
  static async over(conn: Deno.Conn): Promise<Qmp> {
    const qmp = new Qmp(conn);
    qmp.#read().catch(() => {}).finally(() => qmp.#lose());
    await qmp.execute("qmp_capabilities");
    return qmp;
  }

  /** @throws {AgentError} `host` with the emulator's message when it refuses or has ended */
  execute(command: string, args: JsonObject = {}): Promise<void> {
    const turn = this.#turn.then(() => this.#execute(command, args));
    this.#turn = turn.catch(() => {});
    return turn;
  }

  close(): void {
    try {
      this.#conn.close();
    } catch (error) {
      if (!(error instanceof Deno.errors.BadResource)) throw error;
    }
  }

  async #execute(command: string, args: JsonObject): Promise<void> {
    const answer = Promise.withResolvers<void>();
    // An emulator that ends now refuses the command as well: nobody waits for an answer to one that was not sent.
    answer.promise.catch(() => {});
    if (this.#lost) throw ended();
    this.#answer = answer;
    const text = JSON.stringify({ execute: command, arguments: args });
    await writeAll(this.#conn, new TextEncoder().encode(`${text}\n`));
    await answer.promise;
  }

  async #read(): Promise<void> {
    const decoder = new TextDecoder();
    const buffer = new Uint8Array(16_384);
    let rest = "";
    for (;;) {
      const count = await this.#conn.read(buffer);
      if (count === null || rest.length > MESSAGE_CHARS_MAX) return;
      const lines = (rest + decoder.decode(buffer.subarray(0, count), { stream: true })).split(
        "\n",
      );
      rest = lines.pop() ?? "";
      for (const line of lines) this.#hear(JSON.parse(line));
    }
  }

  /** Ignores the greeting and events, which may come between answers. */
  #hear(message: unknown): void {
    if (!isJsonObject(message) || !("return" in message || "error" in message)) return;
    const answer = this.#answer;
    this.#answer = null;
    if (!isJsonObject(message.error)) return answer?.resolve();
    answer?.reject(new AgentError("host", `Cannot command qemu: ${String(message.error.desc)}`));
  }

  #lose(): void {
    this.#lost = true;
    this.#answer?.reject(ended());
    this.close();
  }
}

function ended(): AgentError {
  return new AgentError("host", "Cannot command qemu: its process has exited");
}
