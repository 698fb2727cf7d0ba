// The rows of workflows.

import type { WorkflowUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import type { StoredWorkflow, Workflow } from "../../../domain/job/workflow.ts";
import type {
  CreateWorkflowOutcome,
  ListedWorkflow,
  ReplaceWorkflowOutcome,
  WorkflowFilter,
  WorkflowPage,
  WorkflowRules,
  WorkflowStore,
} from "../../store.ts";
import { fitting, MEASURED_MAX, type StoredText, type TextPage } from "../../stored_text.ts";
import type { Asking, SharedDatabase, Transaction } from "../connection.ts";
import { RowChanged } from "../errors.ts";
import { wholeText } from "../large_text.ts";
import { isText, uuidBegins, Values, whereOf } from "../statements.ts";

/** The advisory lock on which agents take turns to create and rename workflows. */
const WORKFLOW_LOCK = 8_780_003;

/** Opens the part of the store about workflows. */
export function openWorkflows(db: SharedDatabase): WorkflowStore {
  return {
    create: (workflow, rules) =>
      db.write(async (tx, earlier) =>
        earlier?.kind === "created" && await isStored(tx, workflow)
          ? earlier
          : await insertWorkflow(tx, workflow, rules)
      ),
    putBuiltin: (...workflows) =>
      db.write(async (tx) => {
        await takeTurn(tx);
        for (const workflow of workflows) await putBuiltinWorkflow(tx, workflow);
      }),
    replace: (workflow, rules = {}) => db.write((tx) => updateWorkflow(tx, workflow, rules)),
    remove: (uuid) =>
      db.write(async (tx, earlier) => await deleteWorkflow(tx, uuid) || earlier === true),
    get: (uuid) => db.read((tx) => selectWorkflow(tx, uuid)),
    list: (filter, page = {}) => db.read((tx) => selectWorkflows(tx, filter, page)),
    text: (uuid, as) => db.read((tx) => workflowText(tx, uuid, as)),
    texts: (filter, page) => db.read((tx) => workflowTexts(tx, filter, page)),
    count: (filter) => db.read((tx) => countWorkflows(tx, filter)),
  };
}

/** Takes the lock; without it, another agent could change the number of workflows or their names in between. */
async function takeTurn(tx: Transaction): Promise<void> {
  await tx.run(`SELECT pg_advisory_xact_lock(${WORKFLOW_LOCK})`);
}

async function insertWorkflow(
  tx: Transaction,
  workflow: Workflow,
  { max, uniqueName = false }: WorkflowRules,
): Promise<CreateWorkflowOutcome> {
  await takeTurn(tx);
  const written = await tx.run(
    `INSERT INTO workflows (uuid, name, body, builtin, created_at)
     SELECT $1, $2, $3, false, $4
      WHERE (SELECT count(*) FROM workflows) < $5::bigint
        AND (NOT $6::boolean OR NOT EXISTS (SELECT 1 FROM workflows WHERE name = $2))
     ON CONFLICT (uuid) DO NOTHING`,
    workflow.uuid,
    workflow.name,
    JSON.stringify(workflow),
    tx.now,
    max,
    uniqueName,
  );
  if (written > 0) return { kind: "created" };
  if (await workflowBytes(tx, workflow.uuid) !== undefined) return { kind: "uuid_taken" };
  const holder = uniqueName ? await otherOfName(tx, workflow) : undefined;
  return holder === undefined ? { kind: "full" } : { kind: "name_taken", uuid: holder };
}

/** Whether exactly this workflow is stored. */
async function isStored(tx: Transaction, workflow: Workflow): Promise<boolean> {
  const row = await tx.row(
    "SELECT 1 AS found FROM workflows WHERE uuid = $1 AND body = $2",
    workflow.uuid,
    JSON.stringify(workflow),
  );
  return row !== undefined;
}

/** Writes a built-in workflow over that of another version of the agent. */
async function putBuiltinWorkflow(tx: Transaction, workflow: Workflow): Promise<void> {
  await tx.run(
    `INSERT INTO workflows (uuid, name, body, builtin, created_at) VALUES ($1, $2, $3, true, $4)
     ON CONFLICT (uuid) DO UPDATE SET name = excluded.name, body = excluded.body, builtin = true
      WHERE workflows.body <> excluded.body OR NOT workflows.builtin`,
    workflow.uuid,
    workflow.name,
    JSON.stringify(workflow),
    tx.now,
  );
}

/** Replaces a workflow unless it is built in. */
async function updateWorkflow(
  tx: Transaction,
  workflow: Workflow,
  { uniqueName = false }: Pick<WorkflowRules, "uniqueName">,
): Promise<ReplaceWorkflowOutcome> {
  await takeTurn(tx);
  const written = await tx.run(
    `UPDATE workflows SET name = $2, body = $3
      WHERE uuid = $1 AND NOT builtin
        AND (NOT $4::boolean
          OR NOT EXISTS (SELECT 1 FROM workflows WHERE name = $2 AND uuid <> $1))`,
    workflow.uuid,
    workflow.name,
    JSON.stringify(workflow),
    uniqueName,
  );
  if (written > 0) return { kind: "replaced" };
  const holder = await mayChange(tx, workflow.uuid) ? await otherOfName(tx, workflow) : undefined;
  return holder === undefined ? { kind: "not_found" } : { kind: "name_taken", uuid: holder };
}

/** Whether this workflow is stored and not built in. */
async function mayChange(tx: Transaction, uuid: WorkflowUuid): Promise<boolean> {
  const sql = "SELECT 1 AS found FROM workflows WHERE uuid = $1 AND NOT builtin";
  return await tx.row(sql, uuid) !== undefined;
}

/** Deletes a workflow unless it is built in. @returns whether it was deleted */
async function deleteWorkflow(tx: Transaction, uuid: WorkflowUuid): Promise<boolean> {
  return await tx.run("DELETE FROM workflows WHERE uuid = $1 AND NOT builtin", uuid) > 0;
}

/** Finds another workflow with the same name. */
async function otherOfName(
  tx: Transaction,
  { name, uuid }: Workflow,
): Promise<WorkflowUuid | undefined> {
  const row = await tx.row<{ uuid: WorkflowUuid }>(
    "SELECT uuid FROM workflows WHERE name = $1 AND uuid <> $2 ORDER BY id LIMIT 1",
    name,
    uuid,
  );
  return row?.uuid;
}

/** The columns from which a workflow is read. */
interface WorkflowBody {
  readonly body: string;
  readonly builtin: boolean;
  readonly created_at: Instant;
}

function storedWorkflow({ body, builtin, created_at }: WorkflowBody): StoredWorkflow {
  // This store made the text from a workflow.
  return { workflow: JSON.parse(body) as Workflow, builtin, created_at };
}

/** Reads a workflow with its tasks, built-in ones too. */
async function selectWorkflow(
  tx: Transaction,
  uuid: WorkflowUuid,
): Promise<StoredWorkflow | undefined> {
  const row = await tx.row<WorkflowBody>(
    "SELECT body, builtin, created_at FROM workflows WHERE uuid = $1",
    uuid,
  );
  return row === undefined ? undefined : storedWorkflow(row);
}

/** The bytes of a workflow's JSON text. */
async function workflowBytes(tx: Transaction, uuid: WorkflowUuid): Promise<number | undefined> {
  const sql = "SELECT octet_length(body) AS bytes FROM workflows WHERE uuid = $1";
  return (await tx.row<{ bytes: number }>(sql, uuid))?.bytes;
}

/** The workflow of a new job, or why it cannot run. */
export type RunnableWorkflow =
  | { readonly kind: "found"; readonly workflow: Workflow; readonly bytes: number }
  | { readonly kind: "large"; readonly bytes: number }
  | { readonly kind: "missing" };

/** SQL for the digest of a workflow's text, which identifies its contents. */
const SHA256 = "encode(sha256(convert_to(body, 'UTF8')), 'hex')";

/**
 * Reads the workflow of a new job unless it is too large. A text with a known digest is not sent again: its parsed
 * workflow is cached.
 * @throws {RowChanged} when the workflow was replaced meanwhile
 */
export async function workflowToRun(
  tx: Transaction,
  uuid: WorkflowUuid,
  bytesMax: number,
): Promise<RunnableWorkflow> {
  return await runnableOf(tx, uuid, await askWorkflow(tx, uuid, bytesMax));
}

/** The bytes of a workflow, and its digest unless it is too large. */
export interface AskedWorkflow {
  readonly bytes: number;
  readonly sha256: string | null;
}

/** The first half of workflowToRun(), which can be sent together with BEGIN. */
export async function askWorkflow(
  tx: Asking,
  uuid: WorkflowUuid,
  bytesMax: number,
): Promise<AskedWorkflow | undefined> {
  return await tx.row<AskedWorkflow>(
    `SELECT octet_length(body) AS bytes,
            CASE WHEN octet_length(body) <= $2::bigint THEN ${SHA256} END AS sha256
       FROM workflows WHERE uuid = $1`,
    uuid,
    bytesMax,
  );
}

/** The second half of workflowToRun(). */
export async function runnableOf(
  tx: Transaction,
  uuid: WorkflowUuid,
  row: AskedWorkflow | undefined,
): Promise<RunnableWorkflow> {
  if (row === undefined) return { kind: "missing" };
  const { bytes, sha256 } = row;
  if (sha256 === null) return { kind: "large", bytes };
  const workflow = await tx.cached(`workflow ${uuid} ${sha256}`, async () => {
    const found = await selectBody(tx, uuid, sha256);
    if (found === undefined) {
      throw new RowChanged(`Workflow ${uuid} was replaced while it was read`);
    }
    // This store made the text from a workflow.
    return { value: JSON.parse(found.body) as Workflow, chars: bytes };
  });
  return { kind: "found", workflow, bytes };
}

function selectBody(
  tx: Transaction,
  uuid: WorkflowUuid,
  sha256: string,
): Promise<{ body: string } | undefined> {
  return tx.row(`SELECT body FROM workflows WHERE uuid = $1 AND ${SHA256} = $2`, uuid, sha256);
}

async function selectWorkflows(
  tx: Transaction,
  filter: WorkflowFilter,
  { limit, offset = 0, after = 0 }: WorkflowPage,
): Promise<ListedWorkflow[]> {
  const rows = await selectPage<WorkflowBody & { id: number }>(
    tx,
    "id, body, builtin, created_at",
    filter,
    { ...(limit === undefined ? {} : { limit }), offset, after },
  );
  return rows.map((row) => ({ ...storedWorkflow(row), place: row.id }));
}

/** The text of a workflow as it is stored, or as GET shows it, with `wf_uuid` appended. */
async function workflowText(
  tx: Transaction,
  uuid: WorkflowUuid,
  as: "stored" | "shown",
): Promise<StoredText | undefined> {
  const row = await tx.row<{ body: string }>(
    "SELECT body FROM workflows WHERE uuid = $1",
    uuid,
  );
  if (row === undefined) return undefined;
  return wholeText(as === "stored" ? row.body : `${row.body.slice(0, -1)},"wf_uuid":"${uuid}"}`);
}

/** The next workflows of a list in order of creation, as many as fit a part. */
async function workflowTexts(
  tx: Transaction,
  filter: WorkflowFilter,
  page: WorkflowPage & { readonly limit: number },
): Promise<TextPage> {
  const limit = Math.min(page.limit, MEASURED_MAX);
  const sized = "id, octet_length(body) AS bytes";
  const rows = await selectPage<{ id: number; bytes: number }>(tx, sized, filter, {
    ...page,
    limit,
  });
  const fit = rows.slice(0, fitting(rows));
  const bodies = await tx.rows<{ body: string }>(
    "SELECT body FROM workflows WHERE id = ANY($1::bigint[]) ORDER BY id",
    fit.map(({ id }) => id),
  );
  return {
    texts: bodies.length === 0 ? [] : [wholeText(bodies.map(({ body }) => body).join(","))],
    entries: fit.length,
    place: fit.at(-1)?.id,
    last: rows.length < limit && fit.length === rows.length,
  };
}

async function countWorkflows(tx: Transaction, filter: WorkflowFilter): Promise<number> {
  const values = new Values();
  const row = await tx.row<{ workflows: number }>(
    `SELECT count(*) AS workflows FROM workflows ${whereOf(conditionsOf(filter, values))}`,
    ...values.all,
  );
  return row?.workflows ?? 0;
}

async function selectPage<Row extends object>(
  tx: Transaction,
  columns: string,
  filter: WorkflowFilter,
  { limit, offset = 0, after = 0 }: WorkflowPage,
): Promise<Row[]> {
  const values = new Values();
  const where = whereOf([...conditionsOf(filter, values), `id > ${values.add(after)}`]);
  const [most, skipped] = [values.add(limit ?? null), values.add(offset)];
  return await tx.rows<Row>(
    `SELECT ${columns} FROM workflows ${where} ORDER BY id LIMIT ${most} OFFSET ${skipped}`,
    ...values.all,
  );
}

function conditionsOf({ name, uuid, builtin }: WorkflowFilter, values: Values): string[] {
  const conditions: string[] = [];
  if (uuid !== undefined) conditions.push(...uuidBegins(uuid, values));
  if (name !== undefined) conditions.push(isText("name", name, values));
  if (builtin !== undefined) conditions.push(`builtin = ${values.add(builtin)}`);
  return conditions;
}
