// `zonewright completion`: the script by which a shell completes our commands.

import { nearest } from "../domain/near_word.ts";
import { usageError } from "./kit/arguments.ts";
import type { Noun } from "./kit/command.ts";
import { COMPLETION_SCRIPTS } from "./completion_scripts.ts";
import { EXIT } from "./kit/exit_code.ts";

const SHELLS = Object.keys(COMPLETION_SCRIPTS);

/** `zonewright completion`. */
export const COMPLETION: Noun = {
  kind: "command",
  command: {
    summary: "print the script by which a shell completes commands, jobs, machines",
    operands: SHELLS.join("|"),
    operandsMin: 1,
    operandsMax: 1,
    examples: [
      ["completion bash > /etc/bash_completion.d/zonewright", "for everybody on a host"],
      ["completion zsh", "source <(zonewright completion zsh) in .zshrc"],
      ["completion fish", "zonewright completion fish | source"],
    ],
    flags: [],
    shared: "help",
    run({ args, terminal }) {
      const [shell = ""] = args.operands;
      const script = Object.hasOwn(COMPLETION_SCRIPTS, shell)
        ? COMPLETION_SCRIPTS[shell]
        : undefined;
      if (script === undefined) {
        const near = nearest(shell, SHELLS);
        throw usageError(`${JSON.stringify(shell)}: expected ${SHELLS.join(", ")}${near}`);
      }
      terminal.out(script);
      return Promise.resolve(EXIT.ok);
    },
  },
};
