// A workflow may be named by its uuid or by its name; the HTTP interface knows uuids.

import { AgentError } from "../../domain/error.ts";
import { isUuid } from "../../domain/id.ts";
import { nearest } from "../../domain/near_word.ts";
import { readObjects, textIn } from "../kit/answer.ts";
import type { Client } from "../kit/client.ts";

/**
 * The uuid of a workflow.
 * @throws {AgentError} `not_found`; `conflict` when several have that name
 */
export async function workflowUuid(client: Client, nameOrUuid: string): Promise<string> {
  const folded = nameOrUuid.toLowerCase();
  if (isUuid(folded)) return folded;
  const query = new URLSearchParams({ name: nameOrUuid });
  const found = readObjects(await client.get(`/workflows?${query}`), "the workflows");
  const uuids = found.map((workflow) => textIn(workflow, "uuid") ?? "");
  const [uuid] = uuids;
  if (uuid !== undefined && uuids.length === 1) return uuid;
  const quoted = JSON.stringify(nameOrUuid);
  if (uuid !== undefined) {
    const message = `Cannot choose workflow ${quoted}: ${uuids.length} have that name, ` +
      `name one by its uuid: ${uuids.join(", ")}`;
    throw new AgentError("conflict", message);
  }
  const all = readObjects(await client.get("/workflows?builtin=true"), "the workflows");
  const names = all.flatMap((workflow) => textIn(workflow, "name") ?? []);
  throw new AgentError("not_found", `Cannot find workflow ${quoted}${nearest(nameOrUuid, names)}`);
}
