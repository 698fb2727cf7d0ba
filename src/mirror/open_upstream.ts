// Where the index comes from: a web server or a folder, as the operator's words say.

import { fromFileUrl, resolve } from "@std/path";
import { AgentError } from "../domain/error.ts";
import { openFolderUpstream } from "./folder_upstream.ts";
import type { Upstream } from "./upstream.ts";
import { openWebUpstream, type WebUpstreamOptions } from "./web/upstream.ts";

/**
 * Opens `https://...`, `http://...` (only where allowed), a `file:` address or a folder. Nothing is
 * asked yet.
 * @throws {AgentError} `invalid_argument`
 */
export function openUpstream(address: string, options: WebUpstreamOptions): Upstream {
  if (/^https?:/i.test(address)) return openWebUpstream(address, options);
  if (/^file:/i.test(address)) return openFolderUpstream(address, folderOf(address));
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(address)) {
    const message = `Cannot use ${JSON.stringify(address)} as the index: expected https, http, ` +
      "file or a folder";
    throw new AgentError("invalid_argument", message);
  }
  return openFolderUpstream(address, resolve(address));
}

/** @throws {AgentError} `invalid_argument` for a folder of another host */
function folderOf(address: string): string {
  const url = URL.parse(address);
  if (url === null || url.host !== "" || url.search !== "" || url.hash !== "") {
    const message = `Cannot use ${JSON.stringify(address)} as the index: expected the address of ` +
      "a folder of this host, such as file:///srv/index";
    throw new AgentError("invalid_argument", message);
  }
  return fromFileUrl(url);
}
