// Access to this agent: tokens, certificate, socket permissions and the audit file. Reading the configuration again also
// reopens certificate and audit file, whether their names changed or not.

import type { Config } from "../config/settings.ts";
import { AgentError } from "../domain/error.ts";
import { isLoopback } from "../domain/ip_address.ts";
import type { Token } from "../domain/token.ts";
import type { Access, AuditTrail } from "../http/caller.ts";
import { openAuditFile } from "../http/request/audit.ts";
import type { ListenOptions, Server } from "../http/server.ts";
import { readTlsIdentity, type TlsIdentity } from "../http/listen/listener.ts";
import { servesConnections } from "../http/listen/runtime_connection.ts";
import { groupNumber, type SocketRights } from "../http/listen/socket_file.ts";
import type { Log } from "../metrics/log.ts";
import type { Meters } from "../metrics/meters.ts";
import { openTokenBook, readTokenFile, tokenFilePath } from "../state_dir/token_file.ts";
import type { SharedParts } from "./shared_parts.ts";

/** Access rules for the application and the server. */
interface AgentAccess {
  readonly access: Access;
  readonly auditTrail: AuditTrail;
  /** Host names besides loopback: configured ones, the listening address, and the address for other agents. */
  readonly allowedHosts: readonly string[];
  readonly listening: Omit<ListenOptions, "log">;
  /** Reopens certificate and audit file. */
  refresh(config: Config, server: Server): Promise<void>;
}

/**
 * Reads what listening needs.
 * @throws {AgentError} `forbidden` beyond loopback without a token; `invalid_argument` for an
 *   unusable certificate, group or audit file
 */
export async function openAccess(
  context: SharedParts,
  stateDir: string,
  { audit: counts }: Pick<Meters, "audit">,
): Promise<AgentAccess> {
  const { config, log } = context;
  const tokenFile = tokenFilePath(stateDir);
  const tcp = config.listen.value;
  const beyond = tcp !== null && !isLoopback(tcp.hostname);
  const tls = await tlsOf(config);
  const address = config.address.value;
  if (beyond) await refuseUnknownCallers(tcp.hostname, tokenFile, tls);
  const socketRights = await socketRightsOf(config);
  const audit = openAuditFile({ log, lost: (entries) => void (counts.lost += entries) });
  await audit.reopen(config.audit_file.value);
  context.opened("audit file", () => audit.close());
  let required = config.require_token.value;
  context.follow(["require_token"], (next) => void (required = next.require_token.value));
  // refresh() applies these on every reading.
  context.follow(["audit_file"], () => {});
  if (tls !== undefined) context.follow(["tls_cert", "tls_key"], () => {});
  const access: Access = {
    requiresToken: (remote) => required || (beyond && remote?.transport !== "unix"),
    tokens: readableTokens(tokenFile, context),
    nowMs: () => performance.now(),
  };
  return {
    access,
    auditTrail: audit,
    allowedHosts: [
      ...config.allow_host.value,
      ...beyond ? [tcp.hostname.includes(":") ? `[${tcp.hostname}]` : tcp.hostname] : [],
      ...address === null ? [] : [new URL(address).hostname],
    ],
    listening: {
      tcp,
      socketPath: config.socket.value,
      socketRights,
      tls,
      tokenRequired: beyond || required,
      relayed: !servesConnections(),
      connections: context.limits,
    },
    async refresh(next, server) {
      // If one fails, the other must still get its new value.
      const done = await Promise.allSettled([
        audit.reopen(next.audit_file.value),
        tls === undefined ? undefined : renewTls(next, server, log),
      ]);
      for (const one of done) if (one.status === "rejected") throw one.reason;
    },
  };
}

async function socketRightsOf({ socket_mode, socket_group }: Config): Promise<SocketRights> {
  const group = socket_group.value;
  const gid = group === null ? undefined : await groupNumber(group);
  return { mode: Number.parseInt(socket_mode.value, 8), gid };
}

async function renewTls(next: Config, server: Server, log: Log): Promise<void> {
  const renewed = await tlsOf(next);
  if (renewed === undefined) {
    log.warn("certificate no longer named", { note: "the last one is served until a restart" });
    return;
  }
  server.replaceTls(renewed);
  log.info("certificate read again", { tls_cert: next.tls_cert.value });
}

async function tlsOf({ tls_cert, tls_key }: Config): Promise<TlsIdentity | undefined> {
  if (tls_cert.value === null || tls_key.value === null) return undefined;
  return await readTlsIdentity({ certPath: tls_cert.value, keyPath: tls_key.value });
}

async function refuseUnknownCallers(
  hostname: string,
  tokenFile: string,
  tls: TlsIdentity | undefined,
): Promise<void> {
  const missing = [
    ...((await readTokenFile(tokenFile)).length > 0
      ? []
      : ["token (zonewright token create --name NAME --scope admin)"]),
    ...(tls === undefined ? ["TLS (tls_cert and tls_key)"] : []),
  ];
  if (missing.length === 0) return;
  const message = `Cannot listen on ${hostname}, which is beyond loopback: there is no ` +
    missing.join(", and no ");
  throw new AgentError("forbidden", message);
}

/** The tokens; none, with a log line, while their file is damaged or readable by others. */
function readableTokens(
  path: string,
  { log }: Pick<SharedParts, "log">,
): () => Promise<readonly Token[]> {
  const book = openTokenBook(path, () => performance.now());
  let logged: unknown;
  return async () => {
    try {
      const tokens = await book.tokens();
      logged = undefined;
      return tokens;
    } catch (error) {
      const { message } = error instanceof Error ? error : { message: String(error) };
      if (message !== logged) log.error("tokens not read", { error });
      logged = message;
      return [];
    }
  };
}
