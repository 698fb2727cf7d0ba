// What the roles of a shared database may do. The owner of the tables migrates them, agents read and write rows, and
// readers read rows. Only the owner may change a table, including tables of later versions.

import { AgentError, invalidArgument } from "../../domain/error.ts";
import type { ServerSession } from "./server.ts";

/** The roles besides the owner that may use the tables. */
export interface StoreRoles {
  readonly agent?: string;
  readonly reader?: string;
}

/** Bytes of a name in PostgreSQL, which would truncate a longer one. */
const NAME_MAX = 63;

/**
 * Quotes a name as an SQL identifier.
 * @throws {AgentError} `invalid_argument` for a name with other characters, or one that means every role
 */
function quotedName(name: string): string {
  const isPlain = /^[A-Za-z_][A-Za-z0-9_.-]*$/.test(name) && name.length <= NAME_MAX;
  // Both are keywords in the place of a role, even when they are quoted.
  if (isPlain && !["public", "none"].includes(name)) return `"${name}"`;
  const wanted =
    `expected at most ${NAME_MAX} letters, digits, _, . and -, and neither public nor none`;
  throw invalidArgument("role", `Cannot use the role ${JSON.stringify(name)}, ${wanted}`);
}

/** What each role may do with the rows of a table. */
const ROWS = { agent: "SELECT, INSERT, UPDATE, DELETE", reader: "SELECT" } as const;

/**
 * Grants each role its privileges and revokes all others, within the session's transaction. The grants cover the
 * existing tables and those that later migrations of the same owner create.
 * @throws {AgentError} `conflict` for a role that may change tables regardless of grants; `invalid_argument`
 */
export async function grantRoles(session: ServerSession, roles: StoreRoles): Promise<void> {
  for (const kind of ["agent", "reader"] as const) {
    const name = roles[kind];
    if (name === undefined) continue;
    const role = quotedName(name);
    await requireRole(session, name);
    await session.script(grantsOf(role, kind));
    await requireNoMore(session, name);
  }
}

function grantsOf(role: string, kind: keyof StoreRoles): string {
  const sequences = kind === "agent" ? "USAGE, SELECT" : "SELECT";
  const schema = "public";
  const later = `ALTER DEFAULT PRIVILEGES IN SCHEMA ${schema}`;
  return `
    REVOKE CREATE ON SCHEMA ${schema} FROM PUBLIC;
    REVOKE ALL ON ALL TABLES IN SCHEMA ${schema} FROM ${role};
    REVOKE ALL ON ALL SEQUENCES IN SCHEMA ${schema} FROM ${role};
    ${later} REVOKE ALL ON TABLES FROM ${role};
    ${later} REVOKE ALL ON SEQUENCES FROM ${role};
    GRANT USAGE ON SCHEMA ${schema} TO ${role};
    GRANT ${ROWS[kind]} ON ALL TABLES IN SCHEMA ${schema} TO ${role};
    GRANT ${sequences} ON ALL SEQUENCES IN SCHEMA ${schema} TO ${role};
    ${later} GRANT ${ROWS[kind]} ON TABLES TO ${role};
    ${later} GRANT ${sequences} ON SEQUENCES TO ${role};
    -- Only a migration changes the version.
    REVOKE INSERT, UPDATE, DELETE ON schema_version FROM ${role};
  `;
}

async function requireRole(session: ServerSession, name: string): Promise<void> {
  const { rows } = await session.query("SELECT 1 FROM pg_roles WHERE rolname = $1", [name]);
  if (rows.length > 0) return;
  throw new AgentError(
    "not_found",
    `Cannot grant to the role ${name}: it does not exist, expected one made with CREATE ROLE`,
  );
}

/** Refuses a role that may change tables by its attributes or memberships. */
async function requireNoMore(session: ServerSession, name: string): Promise<void> {
  const { rows: [found] } = await session.query(
    `SELECT rolsuper, pg_has_role($1, current_user, 'MEMBER') AS owns,
       has_schema_privilege($1, 'public', 'CREATE') AS creates
     FROM pg_roles WHERE rolname = $1`,
    [name],
  );
  const why = found.rolsuper
    ? "it is a superuser"
    : found.owns
    ? "it is the owner of the tables, or a member of it"
    : found.creates
    ? "it may create tables in the schema public"
    : undefined;
  if (why === undefined) return;
  throw new AgentError(
    "conflict",
    `Cannot grant to the role ${name}: ${why}, expected a role that may only change rows`,
  );
}
