// Writes src/cli/workflow/type_text.ts from docs/zonewright.d.ts. Run it after a change of that file:
//   deno run --allow-read --allow-write tests/cli/write_type_text.ts

import { fromFileUrl } from "@std/path";

const TYPES = fromFileUrl(new URL("../../docs/zonewright.d.ts", import.meta.url));
const MODULE = fromFileUrl(new URL("../../src/cli/workflow/type_text.ts", import.meta.url));

/** The module as it stands, and as the types want it. */
export async function typeTextModule(): Promise<{ found: string; wanted: string }> {
  const text = await Deno.readTextFile(TYPES);
  const wanted = `// deno-fmt-ignore-file
// The text of docs/zonewright.d.ts, so that the binary has it. Written by
// tests/cli/write_type_text.ts: change that file, not this one.

/** Types for task bodies, as \`zonewright workflow types\` prints them. */
export const WORKFLOW_TYPES =
  ${JSON.stringify(text)};
`;
  return { found: await Deno.readTextFile(MODULE).catch(() => ""), wanted };
}

if (import.meta.main) await Deno.writeTextFile(MODULE, (await typeTextModule()).wanted);
