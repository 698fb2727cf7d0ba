// Opens the source of the index, a web server or a folder, from the operator's setting.

import { fromFileUrl, join, resolve } from "@std/path";
import { AgentError, messageOf } from "../domain/error.ts";
import type { Upstream, UpstreamAnswer } from "./upstream.ts";
import { openWebUpstream, type WebUpstreamOptions } from "./web/upstream.ts";
import { DOCUMENT_BYTES_MAX } from "../domain/index/index_document.ts";
import { fileInfo } from "./media/free_space.ts";

/**
 * Opens `https://...`, `http://...` (only where allowed), a `file:` address or a folder. Nothing is
 * fetched yet.
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

/** @throws {AgentError} `invalid_argument` for a folder on another host */
function folderOf(address: string): string {
  const url = URL.parse(address);
  if (url === null || url.host !== "" || url.search !== "" || url.hash !== "") {
    const message = `Cannot use ${JSON.stringify(address)} as the index: expected the address of ` +
      "a folder of this host, such as file:///srv/index";
    throw new AgentError("invalid_argument", message);
  }
  return fromFileUrl(url);
}

// The index in a folder, for hosts without a network and for development. Only regular files below
// the folder are read; symbolic links are refused, since they may leave it.

/**
 * A folder with the tree below it. Changes are detected by comparing bytes, so there are no
 * validators.
 */
function openFolderUpstream(address: string, folder: string): Upstream {
  return {
    address,
    async read(path, { signal, onBytes }): Promise<UpstreamAnswer> {
      signal?.throwIfAborted();
      try {
        const body = await readPlainFile(folder, path.split("/"));
        if (body === undefined) return { kind: "not_found" };
        onBytes?.(body.byteLength);
        return { kind: "document", body, etag: null, last_modified: null };
      } catch (error) {
        if (error instanceof AgentError) throw error;
        const message = `Cannot read ${path} in ${folder}: ${messageOf(error)}`;
        throw new AgentError("upstream", message, { cause: error });
      }
    },
  };
}

async function readPlainFile(
  folder: string,
  names: readonly string[],
): Promise<Uint8Array | undefined> {
  // The folder itself may be a link, since the operator named it. It must exist: a disk that is not
  // mounted would otherwise look like an empty tree and remove everything.
  if (!(await Deno.stat(folder)).isDirectory) {
    throw new AgentError("upstream", `Cannot read the index in ${folder}: it is not a folder`);
  }
  let path = folder;
  for (const [index, name] of names.entries()) {
    if (name === "" || name === "." || name === ".." || name.includes("\0")) {
      throw new AgentError("upstream", `Cannot read ${names.join("/")}: it leaves its folder`);
    }
    path = join(path, name);
    const info = await fileInfo(path);
    if (info === undefined) return undefined;
    const last = index === names.length - 1;
    if (info.isSymlink || (last ? !info.isFile : !info.isDirectory)) {
      const wanted = last ? "a regular file" : "a folder";
      throw new AgentError("upstream", `Cannot read ${path}: expected ${wanted}`);
    }
    if (last && info.size > DOCUMENT_BYTES_MAX) {
      const message = `Cannot read ${path}: it has over ${DOCUMENT_BYTES_MAX} bytes`;
      throw new AgentError("too_large", message);
    }
  }
  return await Deno.readFile(path);
}
