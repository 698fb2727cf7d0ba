// The kinds of settings for where the agent finds its host, its store and its index.

import { nearest } from "../domain/near_word.ts";
import { PORT_MAX } from "../domain/ip_address.ts";
import { peerAddress } from "../domain/peer.ts";
import { HOST_NAME, type Kind, type Reader, readPath, shown, unexpected } from "./kinds.ts";

/** Which host the agent manages. */
export type HostSetting =
  | { readonly kind: "local" }
  /** `name`: what it is called when there are several. */
  | { readonly kind: "simulated"; readonly name: string }
  /** `destination` is `host` or `user@host`. */
  | { readonly kind: "ssh"; readonly destination: string; readonly port: number };

const SSH_PORT = 22;

/** The host that is managed: this one, a simulated one, or another one by its ssh address. */
export const MANAGED_HOST: Kind<HostSetting> = {
  placeholder: "ADDRESS",
  text(value) {
    if (value.kind === "ssh") return `ssh://${value.destination}:${value.port}`;
    const named = value.kind === "simulated" && value.name !== value.kind;
    return named ? `${value.kind}:${value.name}` : value.kind;
  },
  read(raw) {
    if (raw === "local") return { kind: raw };
    const text = typeof raw === "string" ? raw : "";
    const [, kind, name = "simulated"] = /^(simulated)(?::(.*))?$/.exec(text) ?? [];
    if (kind !== undefined && HOST_NAME.test(name)) return { kind: "simulated", name };
    // ssh would take a user or host that begins with a dash for an option.
    const address =
      /^ssh:\/\/((?:[A-Za-z0-9_][A-Za-z0-9._-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*)(?::(\d{1,5}))?\/?$/;
    const [, destination, digits = SSH_PORT] = address.exec(text) ?? [];
    const port = Number(digits);
    if (destination !== undefined && port >= 1 && port <= PORT_MAX) {
      return { kind: "ssh", destination, port };
    }
    const near = nearest(text, ["local", "simulated"]);
    const words = "local, simulated, simulated:NAME and ssh://[user@]host[:port]";
    throw unexpected(raw, `one of ${words}${near}`);
  },
};

/** Where agents of other hosts reach this one. */
export const PEER_ADDRESS: Kind<string> = {
  placeholder: "URL",
  read(raw) {
    const url = typeof raw === "string" ? peerAddress(raw) : undefined;
    if (url !== undefined) return url.origin;
    throw unexpected(raw, "an address such as https://host3.example.org:8780; http on loopback");
  },
};

/** Where workflows and jobs are kept: a file of this host, or a database that many agents share. */
export type StoreSetting =
  | { readonly kind: "sqlite" }
  /** The address contains no password. */
  | { readonly kind: "postgres"; readonly url: string };

/** The word for the file, or the address of a PostgreSQL database. */
export const STORE: Kind<StoreSetting> = {
  placeholder: "STORE",
  text: (value) => value.kind === "sqlite" ? value.kind : value.url,
  read(raw) {
    if (raw === "sqlite") return { kind: raw };
    const url = typeof raw === "string" && URL.canParse(raw) ? new URL(raw) : undefined;
    if (url === undefined || url.protocol !== "postgres:") {
      throw new Error(
        `${shown(raw)} is neither sqlite nor postgres://[user@]host[:port]/database`,
      );
    }
    if (url.password !== "" || url.searchParams.has("password")) {
      // The value may contain a password, so the error does not repeat it.
      throw new Error(
        "found a password, expected an address without one; put it in store_password_file",
      );
    }
    if (!/^\/[^/]+$/.test(url.pathname)) {
      throw new Error("found no name of a database, expected one behind the last slash");
    }
    const named = [...url.searchParams].some(([name, at]) => name !== "host" || at[0] !== "/");
    if (named) throw new Error("found a parameter, expected only ?host=/FOLDER, of a socket");
    return { kind: "postgres", url: url.href };
  },
};

/** The address of a PostgreSQL database alone. */
export const DATABASE: Kind<string> = {
  placeholder: "ADDRESS",
  read(raw, place) {
    const store = STORE.read(raw, place);
    if (store.kind === "postgres") return store.url;
    throw new Error(`${shown(raw)} is not postgres://[user@]host[:port]/database`);
  },
};

const readUpstream: Reader<string> = (raw, place) => {
  if (typeof raw !== "string" || raw === "") throw unexpected(raw, "a URL or a folder");
  if (!/^(?:[a-z][a-z0-9+.-]*:\/\/|file:)/i.test(raw)) return readPath(raw, place);
  const url = URL.canParse(raw) ? new URL(raw) : undefined;
  // A folder may also be given as a file: address of this host.
  const known = url?.protocol === "file:"
    ? url.host === ""
    : url?.protocol === "https:" || url?.protocol === "http:";
  if (url === undefined || !known) throw unexpected(raw, "an https URL or a folder");
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    // The value may contain a secret, so the error does not repeat it.
    const word = "expected a URL without user, password, query and fragment";
    throw new Error(`${url.host || "it"}: ${word}: put a token in index_token_file`);
  }
  return withoutEndSlashes(url);
};

/** The text of a URL without slashes at its end. */
export function withoutEndSlashes({ href }: URL): string {
  return href.replace(/(?<!\/)\/+$/, "");
}

/** The upstream of the index: a URL without the `/v1`, or a folder that holds `v1/`. */
export const UPSTREAM: Kind<string> = { placeholder: "URL|DIR", read: readUpstream };
