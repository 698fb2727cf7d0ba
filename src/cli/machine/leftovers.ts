// `zonewright machine leftovers`: what failed jobs have left on the host, and dropping what nothing can remove.

import { numberCell, readObject, readObjects, textCell, textIn } from "../client/answer.ts";
import { isSure, leftoverNamed, uuidColumn } from "../command/named.ts";
import { cannot, type Flag } from "../command/arguments.ts";
import {
  type Command,
  type CommandEnd,
  EXIT,
  type Invocation,
  YES_FLAG,
} from "../command/command.ts";
import { aheadText } from "../output/table.ts";

/** For machines and what is left of them, in a fleet. */
export const HOST_FLAG: Flag = {
  name: "host",
  placeholder: "HOST",
  help: "of this host, by its uuid or its name",
};

/** The query of requests about leftovers. */
function leftoverPath({ args }: Pick<Invocation, "args">, uuid = ""): string {
  const host = args.text(HOST_FLAG.name);
  const query = host === undefined ? "" : `?${new URLSearchParams({ host })}`;
  return `/agent/v1/leftovers${uuid === "" ? "" : `/${uuid}`}${query}`;
}

/** `zonewright machine leftovers`: GET and DELETE /agent/v1/leftovers. @see docs/machines.md, Leftovers */
export const LEFTOVERS: Command = {
  summary: "list leftovers of failed jobs, which the agent keeps trying to remove",
  examples: [
    ["machine leftovers", "usually nothing"],
    ["machine leftovers --json", "with the error of the latest attempt"],
    ['machine leftovers --drop "$UUID" --yes', "on a host that is gone"],
  ],
  flags: [
    {
      name: "drop",
      placeholder: "MACHINE",
      help: "drop this one: the agent stops trying, and the host keeps what it has",
    },
    HOST_FLAG,
    YES_FLAG,
  ],
  shared: "agent",
  async run(call) {
    const { args, client, printer, terminal } = call;
    const word = args.text("drop");
    if (word !== undefined) return await drop(call, word);
    if (args.has(YES_FLAG.name)) throw cannot("use --yes alone, expected --drop MACHINE with it");
    const sent = await client.send({ method: "GET", path: leftoverPath(call) });
    const left = readObjects(sent.body, "what is left");
    if (printer.json) return printer.document(left);
    printer.table([
      uuidColumn("MACHINE", left),
      uuidColumn("JOB", left, "job_uuid"),
      { head: "HOST", flexible: true, cell: textCell("host") },
      { head: "TRIES", right: true, cell: numberCell("tries") },
      {
        head: "NEXT TRY",
        cell: (one) => nextTryText(textIn(one, "next_try_at"), terminal.nowMs()),
      },
      { head: "ERROR", flexible: true, cell: textCell("error") },
    ], left);
  },
};

async function drop(call: Invocation, word: string): Promise<CommandEnd> {
  const { client, printer } = call;
  const leftover = await leftoverNamed(call, word, leftoverPath(call));
  const { uuid } = leftover;
  const action = (thing: string) => `drop ${thing}, which stays on its host`;
  if (!await isSure(call, "leftover", "drop", action, leftover)) return EXIT.failure;
  const sent = await client.send({ method: "DELETE", path: leftoverPath(call, uuid) });
  const answer = readObject(sent.body, "what was dropped");
  if (printer.json) printer.document(answer);
  else printer.note(textIn(answer, "note") ?? `dropped leftover ${uuid}`);
}

function nextTryText(instant: string | undefined, nowMs: number): string {
  return instant === undefined ? "-" : `in ${aheadText(instant, nowMs)}`;
}
