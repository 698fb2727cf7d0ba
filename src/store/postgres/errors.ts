// What errors of a PostgreSQL server mean: whether the transaction is run again, whether the database counts as away,
// and which error the caller gets.
//
// The codes are SQLSTATEs, from the table of error codes in PostgreSQL's manual.

import { AgentError, type ErrorSubject, isAway, messageOf } from "../../domain/error.ts";
import pg from "pg";

/** SQLSTATEs of a serialization failure, a deadlock and a lock timeout: the transaction may succeed on another run. */
const LOCK_CONFLICTS = new Set(["40001", "40P01", "55P03"]);
/**
 * SQLSTATEs of a violated foreign key and a violated unique key. Another agent may just have removed or inserted the row
 * in question, so the transaction is run again; if the violation remains, it is a defect.
 */
const CONSTRAINT_RACES = new Set(["23503", "23505"]);
/** SQLSTATE for a role that lacks the privilege for a statement. */
const INSUFFICIENT_PRIVILEGE = "42501";

/** Another agent changed a row between the read and the write of this transaction, which must be run again. */
export class RowChanged extends Error {}

/** The connection of a transaction broke; whether the commit happened is unknown. */
export class ConnectionBroken extends Error {}

/** Whether the same transaction may succeed when it is run again. */
export function maySucceedAgain(error: unknown): boolean {
  const state = sqlStateOf(error) ?? "";
  return error instanceof RowChanged || LOCK_CONFLICTS.has(state) || CONSTRAINT_RACES.has(state);
}

/** The SQLSTATE of a server's error; undefined for any other error. */
export function sqlStateOf(error: unknown): string | undefined {
  return error instanceof pg.DatabaseError ? error.code : undefined;
}

/**
 * Whether the server will never accept these values, however often they are sent.
 * @see the table of error codes in PostgreSQL's manual: class 22 are data exceptions, 23 violated constraints
 */
export function isBadData(error: unknown): boolean {
  return /^2[23]/.test(sqlStateOf(error) ?? "");
}

/**
 * Translates a server's error into the one for the caller: a full disk, a missing privilege, or a server that is
 * unavailable. Other errors are returned unchanged.
 * @see the table of error codes in PostgreSQL's manual: class 53 is a lack of resources, 57 an operator's intervention
 */
export function callersError(error: unknown): unknown {
  const state = sqlStateOf(error);
  if (state === "53100") {
    return new AgentError("storage_full", "Cannot write to the store: its disk is full", {
      cause: error,
    });
  }
  if (state === INSUFFICIENT_PRIVILEGE) {
    const words =
      `${messageOf(error)}, expected the owner of the tables for \`zonewright db migrate\`, ` +
      "and its --agent-role for an agent";
    return new AgentError("internal", `Cannot use the database: ${words}`, { cause: error });
  }
  const isUnavailable = state === "57014" || state?.startsWith("57P") === true ||
    state === "53300" || state === "25006";
  return isUnavailable || LOCK_CONFLICTS.has(state ?? "") ? databaseAway(error) : error;
}

/** The `overloaded` error for a caller whose call the server did not answer. */
export function databaseAway(cause: unknown): AgentError {
  if (cause instanceof AgentError) return cause;
  return cannotReach(awayReason(cause), cause);
}

/** As databaseAway(), with a reason in words. */
export function cannotReach(why: string, cause?: unknown): AgentError {
  const message = `Cannot reach the database: ${why}`;
  return overloaded(message, { cause, about: { kind: "database" } });
}

/** Why the server could not be used, in words, with the setting to correct if there is one. */
export function awayReason(cause: unknown): string {
  const wrong = wrongSetting(cause);
  return wrong === undefined ? driverMessage(cause) : `${driverMessage(cause)}, expected ${wrong}`;
}

/** The driver's message when the server asks for a password and none is set. */
const ASKS_FOR_PASSWORD = /\bclient password must be\b/;

/** The driver's message, as an operator would say it. */
function driverMessage(cause: unknown): string {
  const said = messageOf(cause);
  if (ASKS_FOR_PASSWORD.test(said)) return "the server asks for a password";
  // The driver does not say whether the server or the agent's own deadline ended the connection.
  if (/^(?:Connection terminated|timeout expired)/.test(said)) {
    return "the server did not answer in time, or hung up";
  }
  const [, refusing] = /^connect ECONNREFUSED (.+)$/.exec(said) ?? [];
  if (refusing !== undefined) return `no server listens at ${refusing}`;
  const [, unknown] = /^getaddrinfo \w+ (.+)$/.exec(said) ?? [];
  if (unknown !== undefined) return `no address is known for ${unknown}`;
  // The driver names only the call: connect ENOENT /run/postgresql/.s.PGSQL.5432
  const [, socket] = /^connect ENOENT (.+)$/.exec(said) ?? [];
  return socket === undefined ? said : `no server listens on the socket ${socket}`;
}

/**
 * What a setting must contain so that the server admits the agent; undefined for an error with another cause.
 * @see the table of error codes in PostgreSQL's manual: class 28, and 3D000
 */
export function wrongSetting(error: unknown): string | undefined {
  const state = sqlStateOf(error);
  if (state === "28P01" || ASKS_FOR_PASSWORD.test(messageOf(error))) {
    return "the user's password in store_password_file";
  }
  // PgBouncer reports every refusal as 08P01, with the server's message.
  const pooled = state === "08P01" ? messageOf(error) : "";
  if (state?.startsWith("28") === true || POOLED_USER.test(pooled)) {
    return "a user in store whom the server admits";
  }
  const isMissing = state === "3D000" || POOLED_DATABASE.test(pooled);
  return isMissing ? "an existing database in store" : undefined;
}

const POOLED_USER = /^role .* does not exist$|authentication failed/;
const POOLED_DATABASE = /^database .* does not exist$/;

/** Whether a call failed because no server answered. A server that refuses the agent's login has answered. */
export function isUnanswered(error: unknown): boolean {
  return error instanceof AgentError && isAway(error) && wrongSetting(error.cause) === undefined;
}

/** An error for a call that has written nothing, as far as known, and that may succeed soon. */
export function overloaded(
  message: string,
  more: { readonly cause?: unknown; readonly about?: ErrorSubject } = {},
): AgentError {
  return new AgentError("overloaded", message, { ...more, retryAfterSeconds: 1 });
}

/** The error of every call after close(). */
export function storeClosed(): AgentError {
  return new AgentError("aborted", "Cannot use the store: it is closed");
}
