// The door on a runtime that cannot serve connections one at a time: Deno.serve takes them itself, and
// bounds neither their number nor the time they take. agent_access.ts says so in the log.

import type { Log } from "../log.ts";
import { type Answering, BACKLOG, cannotListen, type Door, type Place, within } from "./door.ts";
import { keepServing } from "./lasting_server.ts";
import { bindSocket } from "./unix_socket.ts";

/** Opens it. @throws {AgentError} `conflict` when the place is taken */
export async function openPlainDoor(
  place: Place,
  answering: Answering,
  log: Log,
): Promise<Door> {
  const first = await serve(place, answering);
  const port = "port" in first.addr ? first.addr.port : undefined;
  const taken = place.kind === "tcp" ? { ...place, port: port ?? 0 } : place;
  const lasting = keepServing(first, () => serve(taken, answering), log);
  return {
    port,
    async replaceTls(tls) {
      if (taken.kind === "tcp") await lasting.replace(() => serve({ ...taken, tls }, answering));
    },
    close: (graceMs) => within(graceMs, lasting.shutdown()),
  };
}

async function serve(place: Place, { answer, failed }: Answering): Promise<Deno.HttpServer> {
  const shared = { onListen: () => {}, onError: failed };
  if (place.kind === "socket") {
    const bind = (path: string) =>
      Deno.serve({ ...shared, path }, (request, { remoteAddr }) => answer(request, remoteAddr));
    return await bindSocket(place.path, place.rights, bind, (server) => server.shutdown());
  }
  const { hostname, port, tls } = place;
  const at = { ...shared, hostname, port, tcpBacklog: BACKLOG };
  try {
    return Deno.serve(
      tls === undefined ? at : { ...at, ...tls },
      (request, { remoteAddr }) => answer(request, remoteAddr),
    );
  } catch (error) {
    throw cannotListen(place, error);
  }
}
