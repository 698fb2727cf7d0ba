// The payloads that the real vmadm judged, held against the parser: what it takes, the tool takes, and
// what it refuses of them, docs/policy.md explains.

import { assert, assertEquals } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { canonicalJson, type JsonObject } from "../../src/domain/json.ts";
import { parseMachinePayload } from "../../src/domain/machine/machine.ts";
import { DEFAULT_POLICY, type Policy } from "../../src/domain/policy.ts";
import { type HostNetwork, nicsOf, refuseNics } from "../../src/host/machine_needs.ts";
import { changeHost, openState } from "../../src/simulator/host_folder.ts";
import { plan, validate } from "../../src/simulator/vmadm/create.ts";
import { type RecordedVerdict, recordedVerdicts } from "../support/recorded_vmadm.ts";
import { withFolder } from "../support/until.ts";
import { UUID } from "./machine_request.ts";

/** The networks of the host of the recording, which the first task of a job asks for. */
const NETWORKS: readonly HostNetwork[] = [
  { tag: "admin", link: "net0", kind: "normal" },
  { tag: "test0", link: "net1", kind: "normal" },
];
const POLICY: Policy = { ...DEFAULT_POLICY, nicTags: NETWORKS.map(({ tag }) => tag) };
/** The library of the tool lost count of its own steps: what it was judging had another verdict too. */
const LOST_COUNT = "CRASH idx should be equal to ndone";

const ROWS = await recordedVerdicts();

/** What the agent hands to vmadm for a payload, or why it refuses it. */
function handed({ payload }: RecordedVerdict): { given: JsonObject } | { refusal: AgentError } {
  try {
    const parsed = parseMachinePayload(payload, POLICY);
    refuseNics(nicsOf(parsed, "payload"), NETWORKS);
    const { vnc_password, ...given } = parsed;
    // A password of the agent's choice takes the place of true.
    return { given: vnc_password === true ? { ...given, vnc_password: "secret" } : given };
  } catch (error) {
    assert(error instanceof AgentError && error.code === "invalid_argument", String(error));
    return { refusal: error };
  }
}

function isTaken({ validate, create }: RecordedVerdict): boolean {
  const verdicts = [validate, create].filter((verdict) => verdict !== null);
  return verdicts.every((verdict) => verdict === LOST_COUNT);
}

Deno.test("no payload that the parser accepts is refused by vmadm", () => {
  assertEquals(ROWS.length, 592);
  // What is handed on may be what another payload says in words that the tool takes.
  const taken = new Set(
    ROWS.filter(isTaken).flatMap((row) => {
      const result = handed(row);
      return [row.payload, "given" in result ? result.given : row.payload].map(canonicalJson);
    }),
  );
  const wrong = ROWS.filter((row) => {
    const result = handed(row);
    return "given" in result && !isTaken(row) && !taken.has(canonicalJson(result.given));
  });
  assertEquals(wrong.map(({ name, validate, create }) => ({ name, validate, create })), []);
});

Deno.test("the simulated vmadm accepts what the agent passes on", async () => {
  await withFolder(async (folder) => {
    await changeHost(await openState(folder), { nic_tags: ["admin", "test0"] });
    const state = await openState(folder);
    let count = 0;
    for (const row of ROWS) {
      const result = handed(row);
      if ("refusal" in result) continue;
      count += 1;
      const { code, stderr } = await validate(
        state,
        JSON.stringify(result.given),
        "create",
        undefined,
      );
      assertEquals([row.name, code], [row.name, 0], stderr);
      await plan(state, result.given, UUID);
    }
    assert(count >= 200, String(count));
  });
});

/** The property that an error is about, as the tables of the page name it. */
function propertyOf(field: string): string {
  return field.replace(/^payload\./, "").replace(/\[\d+\]/g, "");
}

/** The first cells of the rows below a heading. */
function cellsBelow(page: string, heading: string): string[] {
  const [, section = ""] = page.split(`### ${heading}\n`);
  const rows = section.split("\n#")[0]?.split("\n").filter((line) => line.startsWith("| ")) ?? [];
  return rows.map((row) => row.split(" | ")[0]?.slice(2) ?? "").slice(1);
}

Deno.test("docs/policy.md has a line for what is refused although vmadm accepts it", async () => {
  const page = await Deno.readTextFile(new URL("../../docs/policy.md", import.meta.url));
  const refused = cellsBelow(page, "What is refused").join(" ");
  const forms = cellsBelow(page, "Forms that vmadm accepts");
  const used = new Set<string>();
  const unexplained: string[] = [];
  for (const row of ROWS.filter(isTaken)) {
    const result = handed(row);
    if ("given" in result) continue;
    for (const { field } of result.refusal.errors) {
      const property = propertyOf(field);
      const [inner = property] = property.split(".").toReversed();
      const named = forms.filter((cell) => cell.includes(`\`${property}\``));
      for (const cell of named) used.add(cell);
      // A row of refused properties tells the list of its first one only.
      const isRefused = refused.includes(`\`${property}\``) || refused.includes(`\`${inner}\``);
      if (named.length === 0 && !isRefused) unexplained.push(`${row.name}: ${field}`);
    }
  }
  assertEquals(unexplained, []);
  // No line without a payload.
  assertEquals(forms.filter((cell) => !used.has(cell)), []);
});
