// An agent with folders of media, for tests of the library and of uploads.

import { join } from "@std/path";
import type { ServedAgent } from "../../src/http/served_agent.ts";
import { systemNow } from "../../src/domain/instant.ts";
import type { KnownFiles } from "../../src/mirror/media/known_files.ts";
import type { MediaLibrary } from "../../src/mirror/media/library.ts";
import type { UploadLimits } from "../../src/mirror/media/uploads.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { isoBytes } from "../support/medium.ts";
import { withFolder } from "../support/until.ts";
import { filesOf, type HttpAgent, libraryOf, withHttpAgent } from "./http_agent.ts";

export const LIBRARY = "/agent/v1/media/library";
export const BYTES = isoBytes(100_000);

/** An agent with a media folder of the operator's and a folder for uploads. */
export interface UploadAgent extends HttpAgent {
  readonly uploads: string;
  readonly operators: string;
  readonly library: MediaLibrary;
  readonly files: KnownFiles;
  /** Sends bytes; the answer with its body as text. */
  put(
    name: string,
    body: BodyInit,
    headers?: Record<string, string>,
  ): Promise<{ status: number; text: string; headers: Headers }>;
  offset(name: string): Promise<string | null>;
}

export async function withUploads(
  run: (agent: UploadAgent) => Promise<void>,
  limits: Partial<UploadLimits> = {},
  /** Other folders, besides the operator's; `here` is the folder of all. */
  others: (here: string) => readonly string[] = () => [],
): Promise<void> {
  await withFolder(async (temporary) => {
    const folder = await Deno.realPath(temporary);
    const uploads = join(folder, "uploads");
    const operators = join(folder, "media");
    await Deno.mkdir(operators);
    const store = await openSqliteStore(":memory:");
    const files = filesOf(store, silentLog, systemNow);
    const library = libraryOf(store, silentLog, {
      files,
      folder: uploads,
      mediaDirs: [operators, ...others(folder)],
      limits,
    });
    const changes: Partial<ServedAgent> = { store, library };
    await withHttpAgent(async (agent) => {
      const put: UploadAgent["put"] = async (name, body, headers = {}) => {
        const answer = await fetch(`${agent.url}${LIBRARY}/${name}`, {
          method: "PUT",
          body,
          headers,
        });
        return { status: answer.status, text: await answer.text(), headers: answer.headers };
      };
      const offset = async (name: string) => {
        const answer = await fetch(`${agent.url}${LIBRARY}/${name}`, { method: "HEAD" });
        return answer.headers.get("upload-offset");
      };
      await run({ ...agent, store, library, files, uploads, operators, put, offset });
    }, changes);
    await store.close();
  });
}
