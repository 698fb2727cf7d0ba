// `zonewright api`: one request to the HTTP interface, with the address, quoting and exit codes of the other
// commands.

import { METHODS } from "./client/api_call.ts";
import { answerError } from "./client/answer.ts";
import { cannot } from "./command/arguments.ts";
import type { Noun } from "./command/command.ts";
import { readJsonArgument } from "./command/typed_value.ts";

/** The whole interface for scripts. */
export const API: Noun = {
  kind: "command",
  command: {
    summary: "send one request to the agent",
    operands: "METHOD PATH",
    examples: [
      ["api GET /jobs?execution=running", "the answer as JSON"],
      ['api POST /jobs/$JOB/info -d \'{"message":{"10%":"copied"}}\'', "with a body"],
      ["api POST /workflows -d @hello.json", "with a body from a file; - is standard input"],
    ],
    flags: [{
      name: "data",
      short: "d",
      placeholder: "JSON",
      help: "the body: JSON, @FILE, or - for standard input",
    }],
    shared: "agent",
    async run({ args, client, printer, terminal }) {
      const [word = "", path = ""] = args.operands;
      const method = word.toUpperCase();
      if (!METHODS.includes(method)) {
        throw cannot(`use method ${JSON.stringify(word)}, expected one of ${METHODS.join(", ")}`);
      }
      if (!path.startsWith("/")) {
        throw cannot(`call ${JSON.stringify(path)}, expected a path such as /jobs`);
      }
      const data = args.text("data");
      if (data !== undefined && (method === "GET" || method === "HEAD")) {
        throw cannot(`send --data with ${method}, expected POST, PUT or DELETE`);
      }
      const call = {
        method,
        path,
        ...(data === undefined ? {} : { body: await readJsonArgument(data, terminal) }),
      };
      if (client.prints(call)) return;
      const answer = await client.exchange(call);
      const ok = answer.status >= 200 && answer.status <= 299;
      // With --json an error is one object on standard error and nothing else, as for every command.
      if (ok || !printer.json) {
        if (answer.body !== undefined) printer.document(answer.body);
        else if (answer.text !== "") terminal.out(answer.text);
      }
      if (!ok) throw answerError(call, answer);
    },
  },
};
