// The settings of who may call: tokens, TLS, the rights of the socket, and the audit trail.

import { define, type Definition } from "./definition.ts";
import { type Read, readPath, readSwitch } from "./values.ts";

/** The rights of a socket as octal digits; nobody needs to run it. */
const readSocketMode: Read<string> = (raw) => {
  if (typeof raw === "string" && /^0?6[046][046]$/.test(raw)) return raw.padStart(4, "0");
  throw new Error(`${JSON.stringify(raw)} is no mode such as "0600" or "0660"`);
};

const GROUP = /^(?:[A-Za-z_][A-Za-z0-9_.-]{0,31}|\d{1,9})$/;
const readGroup: Read<string> = (raw) => {
  const text = typeof raw === "number" ? String(raw) : raw;
  if (typeof text === "string" && GROUP.test(text)) return text;
  throw new Error(`${JSON.stringify(raw)} is no group: expected its name or its number`);
};

/** Rows of the table of settings. */
export const ACCESS_SETTINGS = {
  require_token: define(
    "require-token",
    false,
    readSwitch,
    undefined,
    "want a bearer token on loopback and the socket too; beyond loopback it is always wanted",
  ),
  tls_cert: define<string | null>(
    "tls-cert",
    null,
    readPath,
    "FILE",
    "certificate (PEM, with its chain) by which the port speaks TLS; read again on SIGHUP",
  ),
  tls_key: define<string | null>(
    "tls-key",
    null,
    readPath,
    "FILE",
    "private key (PEM, mode 0600) of the certificate",
  ),
  socket_mode: define("socket-mode", "0600", readSocketMode, "MODE", "rights of the unix socket"),
  socket_group: define<string | null>(
    "socket-group",
    null,
    readGroup,
    "GROUP",
    "group of the unix socket, by name or number",
  ),
  audit_file: define<string | null>(
    "audit-file",
    null,
    readPath,
    "FILE",
    "also append a JSON line for every call that changes something; opened anew on SIGHUP",
  ),
} satisfies Record<string, Definition<unknown>>;
