// Settings of who may call that are fine alone and wrong together. Who reaches the agent may run code
// as root: whom it does not know, it must not listen to.

import type { Config, Setting } from "./config.ts";
import { isLoopback } from "../domain/ip_address.ts";

/** A setting that does not fit the others. */
export interface Misfit {
  readonly setting: Setting<unknown>;
  readonly key: string;
  readonly why: string;
}

/** What is wrong with the settings of who may call. */
export function accessMisfits(
  { index, index_token_file, listen, require_token, socket_mode, tls_cert, tls_key }: Config,
): Misfit[] {
  const misfits: Misfit[] = [];
  const noCert = tls_cert.value === null;
  const noKey = tls_key.value === null;
  if (listen.value !== null && !isLoopback(listen.value.hostname) && (noCert || noKey)) {
    const why = `${JSON.stringify(listen.value.hostname)} is not a loopback address: listening ` +
      "there needs TLS (tls_cert and tls_key) and a token (zonewright token create)";
    misfits.push({ setting: listen, key: "listen", why });
  } else if (noCert && !noKey) {
    misfits.push({ setting: tls_key, key: "tls_key", why: "expected tls_cert as well" });
  } else if (noKey && !noCert) {
    misfits.push({ setting: tls_cert, key: "tls_cert", why: "expected tls_key as well" });
  }
  if (!socket_mode.value.endsWith("0") && !require_token.value) {
    const why =
      `${socket_mode.value} lets every user of the host in: expected require_token as well`;
    misfits.push({ setting: socket_mode, key: "socket_mode", why });
  }
  if (index_token_file.value !== null && index.value?.startsWith("https:") !== true) {
    const why = "expected an index by https: a token is shown to nobody else";
    misfits.push({ setting: index_token_file, key: "index_token_file", why });
  }
  return misfits;
}
