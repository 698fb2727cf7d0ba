// The upstream of a sync that is measured: a tree from memory, with entity tags, on a free port. And
// the same tree in a folder, for a server that reads files.

import { dirname, join } from "@std/path";
import type { Tree } from "./index_tree.ts";

export interface Upstream {
  readonly url: string;
  readonly requests: number;
  close(): Promise<void>;
}

export function serveTree(tree: Tree): Upstream {
  let requests = 0;
  const etags = new Map(Array.from(tree.keys(), (path, number) => [path, `"${number}-1"`]));
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    requests += 1;
    const path = new URL(request.url).pathname.slice(1);
    const body = tree.get(path);
    const etag = etags.get(path);
    if (body === undefined || etag === undefined) return new Response("none", { status: 404 });
    const headers = { etag, "content-type": "application/json" };
    return request.headers.get("if-none-match") === etag
      ? new Response(null, { status: 304, headers })
      : new Response(body, { headers });
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    get requests() {
      return requests;
    },
    close: () => server.shutdown(),
  };
}

/** Writes a tree below a folder; each document also compressed, as `gzip_static` wants it. */
export async function writeTree(tree: Tree, folder: string): Promise<void> {
  for (const [path, body] of tree) {
    const file = join(folder, path);
    await Deno.mkdir(dirname(file), { recursive: true });
    await Deno.writeFile(file, body, { mode: 0o644 });
    const packed = new Blob([body]).stream().pipeThrough(new CompressionStream("gzip"));
    await Deno.writeFile(`${file}.gz`, packed, { mode: 0o644 });
  }
}
