// A file that is being written on a host that is reached by ssh.

import { AgentError } from "../../domain/error.ts";
import type { NewFile } from "../host_files.ts";
import { ATTRIBUTE, attributesOf, OPEN, PACKET } from "./packet.ts";
import {
  answered,
  type Ask,
  askIn,
  closeHandle,
  fileStatus,
  freeBytesOf,
  open,
  statusOf,
  syncHandle,
  there,
} from "./remote_request.ts";
import type { RemoteSession } from "./session.ts";

/** Bytes of one write; every sftp server takes packets of 256 KiB. */
const WRITE_BYTES = 128 * 1024;
/** Writes that are under way at once, so that a long way does not slow a copy down. */
const WRITES_MAX = 16;
/** A write that failed with less room than this failed for the lack of it, bytes. */
const FULL_BYTES = 1024 * 1024;

/**
 * Makes a file where nothing was.
 * @throws {AgentError} `conflict` when anything is there
 */
export async function createFarFile(session: RemoteSession, path: string): Promise<NewFile> {
  const flags = OPEN.write | OPEN.create | OPEN.exclusive;
  const here = askIn(session);
  const handle = await open(here, { verb: "create", path, flags }).catch(async (cause) => {
    if (session.ended || await statusOf(here, path) === null) throw cause;
    const message = `Cannot create ${JSON.stringify(path)}: something is there already`;
    throw new AgentError("conflict", message, { cause });
  });
  const stat = { verb: "look at", path, kind: PACKET.fstat, fields: [handle] };
  const status = async () =>
    fileStatus(attributesOf(await there({ ...stat, answer: PACKET.attributes }, here)));
  const underWay: Promise<void>[] = [];
  let written = 0n;
  const settleOne = async () => {
    try {
      await underWay.shift();
    } catch (cause) {
      throw session.ended ? cause : await fullOr(here, path, cause);
    }
  };
  return {
    status: await status(),
    async write(bytes) {
      for (let at = 0; at < bytes.length; at += WRITE_BYTES) {
        if (underWay.length >= WRITES_MAX) await settleOne();
        const part = bytes.subarray(at, at + WRITE_BYTES);
        const request = {
          verb: "write",
          path,
          kind: PACKET.write,
          fields: [handle, written, part],
        };
        const { answer } = await session.send(request.kind, request.fields);
        const write = answer.then((one) => void answered(request, one));
        write.catch(() => {});
        underWay.push(write);
        written += BigInt(part.length);
      }
    },
    async finish(mode) {
      while (underWay.length > 0) await settleOne();
      const fields = [handle, ATTRIBUTE.permissions, mode];
      await there({ verb: "write", path, kind: PACKET.fsetstat, fields }, here);
      await syncHandle(here, path, handle);
      return await status();
    },
    async close() {
      // A session that has ended has closed all of its files.
      if (!session.ended) await closeHandle(here, path, handle);
    },
  };
}

/** The protocol has no word for a full disk: whether it is one, the free space says. */
async function fullOr(ask: Ask, path: string, cause: unknown): Promise<unknown> {
  const folder = path.slice(0, path.lastIndexOf("/")) || "/";
  const free = await freeBytesOf(ask, folder).catch(() => FULL_BYTES);
  if (free >= FULL_BYTES) return cause;
  const message = `Cannot write ${JSON.stringify(path)} on the host: ${free} bytes are free there`;
  return new AgentError("storage_full", message, { cause });
}
