// Settings that are valid alone and wrong together. Anyone who reaches the agent may run code as root, so
// it must not listen where it cannot know its callers; and a limit must be able to carry what another
// one lets in.

import type { Config, Setting } from "./settings.ts";
import { isLoopback } from "../domain/ip_address.ts";

/** A setting that does not fit the others. */
export interface Misfit {
  readonly setting: Setting<unknown>;
  readonly key: string;
  readonly why: string;
}

/** Everything that does not fit together. */
export function misfitsOf(config: Config): Misfit[] {
  return [...accessMisfits(config), ...indexMisfits(config), ...limitMisfits(config)];
}

function accessMisfits(
  { listen, require_token, socket, socket_mode, tls_cert, tls_key }: Config,
): Misfit[] {
  const misfits: Misfit[] = [];
  if (listen.value === null && socket.value === null) {
    const why = "off leaves no way to call the agent: expected a socket as well";
    misfits.push({ setting: listen, key: "listen", why });
  }
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
      `${socket_mode.value} admits every user of the host: expected require_token as well`;
    misfits.push({ setting: socket_mode, key: "socket_mode", why });
  }
  return misfits;
}

function indexMisfits({ allow_http_index, index, index_token_file }: Config): Misfit[] {
  const misfits: Misfit[] = [];
  if (index.value?.startsWith("http://") && !allow_http_index.value) {
    const why = `${index.value} has no TLS: expected https, or allow_http_index as well`;
    misfits.push({ setting: index, key: "index", why });
  }
  if (index_token_file.value !== null && index.value?.startsWith("https:") !== true) {
    const why = "expected an https index: the token is sent nowhere else";
    misfits.push({ setting: index_token_file, key: "index_token_file", why });
  }
  return misfits;
}

/** Each limit with the one that must be as large: whatever keeps to the first is a part of the second. */
const CARRIED = [
  ["params_chars_max", "job_left_chars_max"],
  ["job_left_chars_max", "job_chars_max"],
  ["result_chars_max", "job_chars_max"],
  // A log line is an entry of the info as well.
  ["task_log_chars_max", "task_info_chars_max"],
] as const;

function limitMisfits({ limits }: Config): Misfit[] {
  return CARRIED.flatMap(([inner, outer]) => {
    if (limits[inner].value <= limits[outer].value) return [];
    // The error names the one that was set: the other may be a default, which nobody has written.
    const [key, other, bound] = limits[inner].origin.kind === "default"
      ? [outer, inner, "at least"] as const
      : [inner, outer, "at most"] as const;
    const why = `${limits[key].value} does not fit ${other}: expected ${bound} ` +
      `${limits[other].value}`;
    return [{ setting: limits[key], key, why }];
  });
}
