// The engine that really boots a machine: an emulator with the machine's drives and a VNC server,
// which the listener of the host relays to, as the real host does. The emulator is held by a keeper
// that kills it as soon as this process is gone, however it went.

import { join } from "@std/path";
import { AgentError, messageOf } from "../../domain/error.ts";
import { objectsIn } from "../../domain/json.ts";
import type { Engine } from "./engine.ts";
import { changeMachine, type Machine, readMachine, zonepath } from "../machine.ts";
import { volumeFile, volumeOf } from "../pool.ts";
import { qemuWords, QMP_SOCKET, VNC_SOCKET } from "./qemu_words.ts";
import { Qmp } from "./qmp.ts";
import { sleep, type State } from "../state.ts";

/** How long the emulator may take until it can be spoken to, ms. */
const START_MS_MAX = 30_000;
const LOOK_MS = 10;
const MIB = 1_048_576;

/**
 * Runs a program, kills it when standard input ends, and removes the folder of its sockets after it.
 * Arguments: the file for its complaints, that folder, and the words of the program, which are never
 * read as a script.
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
   * Where its sockets are, which is not the zone: the path of a socket may have about a hundred
   * characters. The keeper removes it.
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
    // Only the screen tells what a real guest came up from.
    await changeMachine(this.#state, this.#uuid, (it) => it.booted = null);
  }

  async reset(): Promise<void> {
    await this.#qmp?.execute("system_reset");
  }

  async pressPowerButton(): Promise<void> {
    await this.#qmp?.execute("system_powerdown");
  }

  async serve(client: Deno.Conn): Promise<void> {
    // A password that was set at boot may change live on kvm.
    if (this.#password !== "" && this.#brand === "kvm") {
      const machine = await readMachine(this.#state, this.#uuid);
      await this.#setPassword(String(machine?.vm.vnc_password ?? ""));
    }
    const server = await Deno.connect({ transport: "unix", path: join(this.#folder, VNC_SOCKET) });
    // Each pipe ends the other: it closes both connections at its end.
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
        const bytes = Number(disk.size) * MIB;
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

  /** @throws {AgentError} `host` with its complaints when the emulator does not come up */
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
          await sleep(LOOK_MS);
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
