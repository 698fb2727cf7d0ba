// The meters of the agent at the places where they turn.

import { isJsonObject } from "../domain/json.ts";
import type { ConsoleStream, MachineReader } from "../http/app_deps.ts";
import type { Meters } from "../metrics/meters.ts";
import type { Perform } from "../sandbox/run_task.ts";

/** What a task calls, with the bytes that it places counted. */
export function countedPerform(perform: Perform, meters: Meters | undefined): Perform {
  if (meters === undefined) return perform;
  return async (name, args, signal) => {
    const result = await perform(name, args, signal);
    if (name === "media.place" && isJsonObject(result) && typeof result.size === "number") {
      meters.media.placed += result.size;
    }
    return result;
  };
}

/** The reading side of vmadm, with the consoles that are open over it counted. */
export function countedConsoles(vmadm: MachineReader, { consoles }: Meters): MachineReader {
  return {
    ...vmadm,
    async connectVnc(address, options): Promise<ConsoleStream> {
      const stream = await vmadm.connectVnc(address, options);
      consoles.open += 1;
      consoles.opened += 1;
      let open = true;
      return {
        greeting: stream.greeting,
        read: (buffer) => stream.read(buffer),
        write: (bytes) => stream.write(bytes),
        close() {
          if (open) consoles.open -= 1;
          open = false;
          stream.close();
        },
      };
    },
  };
}
