// A program that stands where vmadm stands and answers as a test says: each subcommand is a piece
// of shell. It keeps the words of every call and the last input that a call read.

import { localTransport, type Transport } from "../../src/host/transport.ts";
import { withFolder } from "../support/until.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { recording } from "./recording.ts";

export interface FakeVmadm {
  /** Folder of the fake, for files that its answers use; `$dir` in an answer. */
  readonly folder: string;
  readonly transport: Transport;
  /** Sets what a subcommand does: shell that sees the words as `$@`. */
  answer(subcommand: string, shell: string): Promise<void>;
  /** The words of every call so far, joined by spaces. */
  calls(): Promise<string[]>;
  /** What the last call with a payload read. */
  input(): Promise<unknown>;
}

const PROGRAM = `
printf '%s\\n' "$*" >> "$dir/calls"
case $1 in create | update | validate) cat > "$dir/input" ;; esac
if [ ! -f "$dir/$1.answer" ]; then echo "unexpected $1" >&2; exit 2; fi
. "$dir/$1.answer"
`;

/** Runs a test with a fake vmadm of its own. */
export async function withFakeVmadm(test: (fake: FakeVmadm) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const vmadm = `${folder}/vmadm`;
    await Deno.writeTextFile(vmadm, `#!/bin/sh\ndir='${folder}'\n${PROGRAM}`, { mode: 0o755 });
    await Deno.mkdir(`${folder}/zones`);
    await test({
      folder,
      transport: localTransport({ vmadm, zonesRoot: `${folder}/zones` }),
      answer: (subcommand, shell) =>
        Deno.writeTextFile(`${folder}/${subcommand}.answer`, `${shell}\n`),
      calls: async () => {
        const text = await Deno.readTextFile(`${folder}/calls`).catch(() => "");
        return text.split("\n").filter((line) => line !== "");
      },
      input: async () => JSON.parse(await Deno.readTextFile(`${folder}/input`)),
    });
  });
}

/** Shell that prints a recorded text, on standard output (1) or standard error (2). */
export function prints(name: string, stream: 1 | 2): string {
  return `cat >&${stream} <<'TEXT'\n${recording(name)}TEXT`;
}

/** Answers of `lookup` about the recorded machine. */
export const THERE = prints("lookup_one.json", 1);
export const NOT_THERE = "echo '[]'";
/** The recorded machine in another state, and with other properties if need be. */
export function thereAs(state: string, others: JsonObject = {}): string {
  const [machine]: JsonObject[] = JSON.parse(recording("lookup_one.json"));
  return `cat <<'TEXT'\n${JSON.stringify([{ ...machine, ...others, state }])}\nTEXT`;
}
