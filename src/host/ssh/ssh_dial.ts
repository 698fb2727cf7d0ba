// A connection to a TCP port as a host that is reached by ssh reaches it: a channel of the ssh
// connection, with ssh's own process at this end. sshd must allow it (AllowTcpForwarding).

import { AgentError } from "../../domain/error.ts";
import { abortedError, checkAborted } from "../abort.ts";
import { killGroup, startProgram } from "../program.ts";
import { addressOf, SSH, sshWords } from "./client.ts";
import type { SshConnection } from "./connection.ts";
import type { HostConnection } from "../transport.ts";

/**
 * Opens the channel. That nobody answers at its far end is found out by the first read, which then
 * throws `host`.
 * @throws {AgentError} `host` when there is no connection to the host; `aborted`
 */
export async function dialOverSsh(
  connection: SshConnection,
  { hostname, port, signal }: { hostname: string; port: number; signal: AbortSignal | undefined },
): Promise<HostConnection> {
  const { host } = connection;
  const target = hostname.includes(":") ? `[${hostname}]:${port}` : `${hostname}:${port}`;
  const action = `Cannot connect to ${target} by ssh to ${addressOf(host)}`;
  checkAborted(action, signal);
  const options = await connection.options(signal);
  if (signal?.aborted) throw abortedError(action, signal);
  const args = [...options, "-W", target, "--", host.destination];
  const child = startProgram(SSH, args, { cwd: host.folder, stdin: "" });
  return channelOf(
    child,
    (words) => new AgentError("host", `${action}: ${words}`, { cause: new Error(words) }),
  );
}

function channelOf(
  child: Deno.ChildProcess,
  failure: (words: string) => AgentError,
): HostConnection {
  const words = new Response(child.stderr).text().catch(() => "");
  let reader: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>> | undefined;
  let writer: WritableStreamDefaultWriter<Uint8Array<ArrayBufferLike>> | undefined;
  let held: Uint8Array = new Uint8Array();
  let heard = false;
  let closed = false;
  return {
    readable: child.stdout,
    writable: child.stdin,
    async read(into) {
      reader ??= child.stdout.getReader();
      while (held.length === 0) {
        const part = await reader.read();
        if (part.done) {
          const { success } = await child.status;
          if (heard || success || closed) return null;
          throw failure(sshWords(await words));
        }
        heard = true;
        held = part.value;
      }
      const taken = held.subarray(0, into.length);
      into.set(taken);
      held = held.subarray(taken.length);
      return taken.length;
    },
    async write(bytes) {
      writer ??= child.stdin.getWriter();
      await writer.write(bytes);
      return bytes.length;
    },
    close() {
      closed = true;
      killGroup(child);
      const ignore = () => {};
      // Whoever took the streams themselves ends them; what nobody took must not be left open.
      if (reader !== undefined) reader.cancel().catch(ignore);
      else if (!child.stdout.locked) child.stdout.cancel().catch(ignore);
      if (writer !== undefined) writer.close().catch(ignore);
      else if (!child.stdin.locked) child.stdin.close().catch(ignore);
    },
  };
}
