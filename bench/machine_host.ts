// The hosts on which machines are made to be measured. Each has a program for vmadm that notes when a call
// began and ended: what is left of a step is the agent's own time.

import { join } from "@std/path";
import { BINARY } from "./agent_under_test.ts";
import { quantile } from "./numbers.ts";

/** A host, as far as an agent and its measure need it. */
export interface MachineHost {
  /** Absolute path of the program. */
  readonly vmadm: string;
  /** Absolute folder of the zones. */
  readonly zones: string;
  /** The calls about a machine so far. */
  calls(uuid: string): Promise<Call[]>;
  remove(uuid: string): Promise<void>;
  close(): Promise<void>;
}

/** One call of vmadm, the start of its program included; milliseconds since 1970. */
export interface Call {
  readonly begin: number;
  readonly end: number;
}

/** Opens a host in a folder of its own. */
export type OpenHost = (folder: string) => Promise<MachineHost>;

/**
 * How long calls of the waiting host take, seconds; each up to half as long again, so that machines which
 * were asked for at once do not stay in step.
 */
const WAIT_SECONDS = { look: 0.3, create: 2, boot: 1 };

/** What introduces an RFB server. */
const RFB_BANNER = "RFB 003.008\n";

/** Writes a line about the call at its end. */
const NOTE = 'note() { echo "$begin $EPOCHREALTIME $1" >>"$log"; }';

/**
 * A shell that knows as much of vmadm as making a machine needs. It waits by reading from a pipe that
 * nobody writes to, since `sleep` would be one more program.
 */
function waitingScript(dir: string, port: number): string {
  const { look, create, boot } = WAIT_SECONDS;
  return `#!/bin/bash
begin=$EPOCHREALTIME
dir=${dir}
log=$dir/calls
${NOTE}
wait_for() {
  local ms=$(( $1 + RANDOM % ($1 / 2) ))
  local seconds
  printf -v seconds '%d.%03d' $((ms / 1000)) $((ms % 1000))
  read -rt "$seconds" <>"$dir/nothing"
}
is_uuid='([0-9a-f]{8}-[0-9a-f-]{27})'
in_payload='"uuid":"'$is_uuid
case $1 in
  validate | create) IFS= read -r -d '' payload; [[ $payload =~ $in_payload ]] ;;
  *) [[ $* =~ $is_uuid ]] ;;
esac
uuid=\${BASH_REMATCH[1]}
case $1 in
  validate)
    wait_for ${look * 1000}
    echo "VALID 'create' payload for kvm brand VMs." >&2
    ;;
  create)
    wait_for ${create * 1000}
    folder=$dir/zones/$uuid
    /bin/mkdir -p "$folder/root"
    echo "\${payload#?}" >"$folder/payload"
    echo stopped >"$folder/state"
    echo "Successfully created VM $uuid" >&2
    ;;
  lookup)
    wait_for ${look * 1000}
    if read -r state 2>/dev/null <"$dir/zones/$uuid/state"; then
      read -r payload <"$dir/zones/$uuid/payload"
      echo "[{\\"zonepath\\":\\"$dir/zones/$uuid\\",\\"state\\":\\"$state\\",$payload]"
    else
      echo "[]"
    fi
    ;;
  boot)
    wait_for ${boot * 1000}
    echo running >"$dir/zones/$uuid/state"
    echo "Successfully started VM $uuid" >&2
    ;;
  info)
    wait_for ${look * 1000}
    echo '{"vnc": {"host": "127.0.0.1", "port": ${port}, "display": 0}}'
    ;;
  *) exit 2 ;;
esac
note "$uuid"
`;
}

/**
 * A host whose vmadm waits as long as the real one is known to and uses next to no processor, so that both
 * processors are the agent's. One server answers for the consoles of all machines.
 */
export async function openWaitingHost(folder: string): Promise<MachineHost> {
  const dir = join(folder, "host");
  await Deno.mkdir(join(dir, "zones"), { recursive: true });
  await run("/usr/bin/mkfifo", [join(dir, "nothing")]);
  const server = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const serving = greetAll(server);
  const vmadm = join(folder, "vmadm");
  await Deno.writeTextFile(vmadm, waitingScript(dir, server.addr.port), { mode: 0o755 });
  const startMs = await shellStartMs(folder);
  return {
    vmadm,
    zones: join(dir, "zones"),
    calls: (uuid) => callsIn(join(dir, "calls"), uuid, startMs),
    remove: (uuid) => Deno.remove(join(dir, "zones", uuid), { recursive: true }),
    async close() {
      server.close();
      await serving;
    },
  };
}

async function greetAll(server: Deno.Listener): Promise<void> {
  const banner = new TextEncoder().encode(RFB_BANNER);
  for await (const connection of server) {
    // The agent closes it when it has read the banner.
    await connection.write(banner);
    connection.close();
  }
}

/** How often the start of a shell is measured. */
const SHELL_STARTS = 21;
/** Starts itself again, and reports how long that took. */
const START_SCRIPT = `#!/bin/bash
if [[ $1 ]]; then echo "$1 $EPOCHREALTIME"; else exec "$0" "$EPOCHREALTIME"; fi
`;

/**
 * What it takes until a shell can look at the clock, milliseconds. It is a part of the calls that shells
 * note: the start of vmadm is no work of the agent.
 */
async function shellStartMs(folder: string): Promise<number> {
  const script = join(folder, "start");
  await Deno.writeTextFile(script, START_SCRIPT, { mode: 0o755 });
  const found: number[] = [];
  for (let turn = 0; turn < SHELL_STARTS; turn += 1) {
    const { stdout } = await new Deno.Command(script, { clearEnv: true }).output();
    const [from, to] = new TextDecoder().decode(stdout).split(" ").map(Number);
    found.push(((to ?? NaN) - (from ?? NaN)) * 1000);
  }
  return quantile(found, 0.5);
}

/**
 * The simulated host in front of which a shell notes the calls. Payloads are read first, since only they
 * name the machine.
 */
function simulatorScript(state: string, log: string): string {
  return `#!/bin/bash
begin=$EPOCHREALTIME
log=${log}
${NOTE}
words="$*"
if [[ $1 == create || $1 == validate || $1 == update ]]; then
  IFS= read -r -d '' payload
  words="$words $payload"
  ${BINARY} simulate --state ${state} vmadm "$@" <<< "$payload"
else
  ${BINARY} simulate --state ${state} vmadm "$@" < /dev/null
fi
code=$?
named='"uuid":"([0-9a-f-]{36})"'
given='([0-9a-f]{8}-[0-9a-f-]{27})'
[[ $words =~ $named || $words =~ $given ]]
note "\${BASH_REMATCH[1]}"
exit $code
`;
}

/** A host that is played by `zonewright simulate`, a program for each call and for each machine. */
export async function openSimulatorHost(folder: string): Promise<MachineHost> {
  const state = join(folder, "host");
  const log = join(folder, "calls");
  const vmadm = join(folder, "vmadm");
  await Deno.writeTextFile(vmadm, simulatorScript(state, log), { mode: 0o755 });
  await run(BINARY, ["simulate", "--state", state, "engine"]);
  const startMs = await shellStartMs(folder);
  return {
    vmadm,
    zones: join(state, "zones"),
    calls: (uuid) => callsIn(log, uuid, startMs),
    remove: (uuid) => run(BINARY, ["simulate", "--state", state, "vmadm", "delete", uuid]),
    close: () => run(BINARY, ["simulate", "--state", state, "stop-all"]),
  };
}

async function run(program: string, args: readonly string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(program, { args: [...args] }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}

async function callsIn(log: string, uuid: string, startMs: number): Promise<Call[]> {
  const lines = (await Deno.readTextFile(log)).split("\n");
  return lines.map((line) => line.split(" ")).flatMap(([begin, end, whose]) =>
    whose === uuid ? [{ begin: Number(begin) * 1000 - startMs, end: Number(end) * 1000 }] : []
  );
}
