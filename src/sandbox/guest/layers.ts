// The layers of the sandbox that a guest may be asked to leave open. Each has to hold alone, and so
// each is tested with the others open. The word that opens one stands on the command line of a
// guest; no pool writes it there, and a guest that has an open layer says so when it reports.

/**
 * permissions: Deno's own. realm: what a realm refuses, and what keeps its objects apart from the
 * guest's. primordials: the language of the guest's own realm is all that is left there, and frozen.
 * protocol: the guest's own code calls nothing that a task could have replaced.
 */
export const GUEST_LAYERS = ["permissions", "realm", "primordials", "protocol"] as const;
/** One of them. */
export type GuestLayer = typeof GUEST_LAYERS[number];

const OPEN_MARK = "open:";

/** The word of the command line that leaves layers open. */
export function openLayersWord(layers: readonly GuestLayer[]): string {
  return OPEN_MARK + layers.join(",");
}

/**
 * The layers that the first word of a guest's command line leaves open, and the words behind it.
 * @throws {Error} when one of its layers is unknown
 */
export function readOpenLayers(
  args: readonly string[],
): { open: ReadonlySet<GuestLayer>; rest: readonly string[] } {
  const [first = "", ...rest] = args;
  if (!first.startsWith(OPEN_MARK)) return { open: new Set(), rest: args };
  const open = first.slice(OPEN_MARK.length).split(",").map((word) => {
    const layer = GUEST_LAYERS.find((known) => known === word);
    if (layer === undefined) throw new Error(`Cannot start as a guest: no layer is named ${word}`);
    return layer;
  });
  return { open: new Set(open), rest };
}
