// The list of distros that is stored: the upstream's own bytes when every distro of it was accepted.
// When some were not, it must speak of what is served: the distros that are kept appear as they
// were listed before, and those that are not here at all do not appear.

import { decodeDocument } from "../domain/index_document.ts";
import { DISTRO_LIST_PATH } from "../domain/index_path.ts";
import { canonicalJson, isJsonObject, type JsonValue } from "../domain/json.ts";
import type { Instant } from "../domain/instant.ts";
import { sha256Hex } from "../domain/sha256.ts";
import type { IndexDocument } from "../store/store.ts";

/** What becomes of a listed distro. */
export type ListedState = "accepted" | "kept" | "absent";

/**
 * @param body the list as the upstream has it
 * @param stored the list as the store has it
 * @returns null when the upstream's own bytes fit
 */
export async function composeDistroList(
  body: Uint8Array,
  stored: Uint8Array | undefined,
  stateOf: (distro: string) => ListedState,
  now: Instant,
): Promise<IndexDocument | null> {
  const list = decodeDocument(body, DISTRO_LIST_PATH);
  const entries = entriesOf(list);
  const before = new Map(
    stored === undefined ? [] : entriesOf(decodeDocument(stored, DISTRO_LIST_PATH)),
  );
  const composed = entries.flatMap(([id, entry]): JsonValue[] => {
    const state = stateOf(id);
    if (state === "absent") return [];
    return [state === "kept" ? before.get(id) ?? entry : entry];
  });
  if (!isJsonObject(list) || canonicalJson(composed) === canonicalJson(list.distros ?? null)) {
    return null;
  }
  const text = JSON.stringify({ ...list, distros: composed }, null, 2) + "\n";
  const made = new TextEncoder().encode(text);
  return {
    path: DISTRO_LIST_PATH,
    body: made,
    sha256: await sha256Hex(made),
    // The upstream's validators belong to other bytes; without them the list is asked for anew.
    etag: null,
    last_modified: null,
    fetched_at: now,
  };
}

function entriesOf(list: unknown): [string, JsonValue][] {
  const distros = isJsonObject(list) && Array.isArray(list.distros) ? list.distros : [];
  return distros.flatMap((entry): [string, JsonValue][] =>
    isJsonObject(entry) && typeof entry.id === "string" ? [[entry.id, entry]] : []
  );
}
