// One accepted connection, served by a Deno.serve of its own: for runtimes that serve no connection by
// itself. The server listens on a unix socket in a closed folder; both are gone as soon as the agent
// has connected to it, so that nobody else ever gets there and whoever asks is known without a word of
// theirs. The agent carries the bytes between the two, and can therefore close the caller's
// connection, which Deno.serve would keep for as long as the caller likes.

import { AgentError } from "../../domain/error.ts";
import { closeConnection, type ConnectionRelay, relayConnections } from "./connection_relay.ts";
import {
  type ConnectionHandling,
  isLastAnswer,
  type RequestInfo,
  type ServedConnection,
} from "./runtime_connection.ts";

/** Serves one connection; request.url has the scheme `http+unix:`, and the Host of the request. */
export function serveRelayed(
  connection: Deno.Conn,
  handling: ConnectionHandling,
): ServedConnection {
  let server: Deno.HttpServer | undefined;
  let relay: ConnectionRelay | undefined;
  const cut = () => {
    relay?.cut();
    closeConnection(connection);
  };
  const run = async () => {
    try {
      const takeOver = () => {
        if (relay !== undefined) return relay.takeOver();
        throw new AgentError("internal", "Cannot take a connection from HTTP: nothing is carried");
      };
      const opened = await openServer(handling, takeOver, cut);
      server = opened.server;
      relay = relayConnections(connection, opened.connection, handling.moved);
    } catch (error) {
      handling.notServed(error);
      cut();
      return;
    }
    await relay.finished;
    // Requests that are still answered have lost their caller; nobody waits for them.
    server.shutdown().catch(() => {});
  };
  const finished = run();
  return {
    finished,
    async shutdown() {
      if (server === undefined || relay === undefined) return cut();
      await server.shutdown();
      await relay.delivered;
    },
    cut,
  };
}

/**
 * A server that exactly one connection leads to.
 * @param lost is called when the server could not accept it, as without descriptors
 */
async function openServer(
  { answer, failed }: ConnectionHandling,
  takeOver: RequestInfo["takeOver"],
  lost: () => void,
): Promise<{ readonly server: Deno.HttpServer; readonly connection: Deno.Conn }> {
  const folder = Deno.makeTempDirSync({ prefix: "zw" });
  try {
    const path = `${folder}/s`;
    const server = Deno.serve(
      { path, onListen: () => {}, onError: failed },
      async (request, { completed }) => {
        const response = await answer(request, { completed, takeOver });
        // Deno 2.9 sends this header and keeps the connection.
        if (isLastAnswer(response)) server.shutdown().catch(() => {});
        return response;
      },
    );
    // At once: a failure that nobody waits for would end the agent.
    server.finished.catch(lost);
    try {
      return { server, connection: await Deno.connect({ transport: "unix", path }) };
    } catch (error) {
      server.shutdown().catch(() => {});
      throw error;
    }
  } finally {
    removeBoth(`${folder}/s`, folder);
  }
}

/** One by one: removing a folder with all that is in it takes a descriptor, and there may be none. */
function removeBoth(socket: string, folder: string): void {
  try {
    Deno.removeSync(socket);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  } finally {
    Deno.removeSync(folder);
  }
}
