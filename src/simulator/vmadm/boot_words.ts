// The words after the uuid of `vmadm start`: `order=cd,once=d cdrom=/x.iso,ide disk=/x.raw,ide`.
// Each is split at its first `=`, so the value of `order` keeps its comma and its second `=`.

import { refuseDiskModel } from "./device.ts";
import type { BootFile, Brand } from "../machine.ts";
import { misuse } from "../outcome.ts";

/** What the words of a start ask for. */
export interface BootWords {
  /** qemu's -boot text with its keys, such as `order=cd,once=d`; null when no word gave one. */
  readonly order: string | null;
  readonly files: readonly BootFile[];
}

/**
 * Reads the words of a start.
 * @throws {AgentError} `invalid_argument` for words that the tool answers with its usage
 */
export function parseBootWords(words: readonly string[]): BootWords {
  let order: string | null = null;
  const files: BootFile[] = [];
  for (const word of words) {
    const at = word.indexOf("=");
    const key = at < 0 ? word : word.slice(0, at);
    const value = at < 0 ? "" : word.slice(at + 1);
    if (key === "order") {
      // The wording is the simulator's own.
      if (order !== null) throw misuse("Cannot specify order more than once");
      order = `order=${value}`;
    } else if (key === "cdrom" || key === "disk") {
      // Further parts are ignored, so a path with a comma is cut.
      const [path = "", model = ""] = value.split(",");
      files.push({ path, model, media: key });
    } else throw misuse(`Invalid argument to start: ${key}`);
  }
  return { order, files };
}

/** Refuses models that the brand does not have; bhyve checks them, too, before it ignores them. */
export function refuseBootModels(words: BootWords, brand: Brand): void {
  for (const file of words.files) refuseDiskModel(brand, file.model);
}

/** From which device a boot text tries first, and then: letters of qemu, c disk and d CD. */
export function bootOrder(order: string | null, onceSpent: boolean): string {
  const keys = new Map(
    (order ?? "order=cd").split(",").map((part): [string, string] => {
      const at = part.indexOf("=");
      // A text without a key is an order by itself, as qemu reads it.
      return at < 0 ? ["order", part] : [part.slice(0, at), part.slice(at + 1)];
    }),
  );
  const normal = keys.get("order") ?? "cd";
  const once = keys.get("once");
  return once === undefined || onceSpent ? normal : once + normal;
}
