// The agent itself: whether it answers where the configuration says that it listens.

import { messageOf } from "../../domain/error.ts";
import { type Check, type Finding, ok } from "./check.ts";

/** Milliseconds for an answer. */
const ANSWER_MS = 5_000;

/** The answer to a caller that shows no token where one is wanted. */
const UNAUTHORIZED = 401;

/** Where the agent listens, as it is configured. */
export interface ListenPlaces {
  readonly tcp: { readonly hostname: string; readonly port: number } | null;
  readonly socket: string | null;
  /** The file of the certificate with which TLS is spoken on the port; null for plain HTTP. */
  readonly tlsCert: string | null;
}

/** Whether an agent answers. One that wants a token, which the doctor has not, has answered too. */
export function agentCheck(places: ListenPlaces): Check {
  return {
    name: "agent",
    about: "an agent answers where the configuration says",
    async examine() {
      const { url, place, client } = await wayTo(places);
      try {
        const response = await fetch(`${url}/ping`, {
          signal: AbortSignal.timeout(ANSWER_MS),
          ...(client === undefined ? {} : { client }),
        });
        const text = await response.text();
        if (response.status === UNAUTHORIZED) return ok(`${place}, which wants a token`);
        if (!response.ok) return { outcome: "fail", detail: `${place} answers ${response.status}` };
        const pid = /"pid":\s*(\d+)/.exec(text)?.[1] ?? "unknown";
        return ok(`${place}, pid ${pid}`);
      } catch (error) {
        // What went wrong stands in the cause; some runtimes have it in the message too.
        const inner = error instanceof Error && error.cause !== undefined ? error.cause : error;
        return withoutAnswer(place, messageOf(inner));
      } finally {
        client?.close();
      }
    },
  };
}

/** A certificate rarely names the address that is listened on: callers use the name. */
function withoutAnswer(place: string, words: string): Finding {
  if (/certificate not valid for name/i.test(words)) return ok(`${place}, under another name`);
  if (/certificate/i.test(words)) {
    return { outcome: "warn", detail: `${place}: ${words}`, fix: "renew tls_cert, then reload" };
  }
  const fix =
    "start the service: zonewright install, systemctl start zonewright, svcadm enable zonewright";
  return { outcome: "warn", detail: `nobody answers at ${place}: ${words}`, fix };
}

/** Over TLS the socket is preferred: no certificate names it, and none has to be trusted. */
async function wayTo(
  { tcp, socket, tlsCert }: ListenPlaces,
): Promise<{ url: string; place: string; client?: Deno.HttpClient }> {
  if (socket !== null && (tcp === null || tlsCert !== null)) {
    const client = Deno.createHttpClient({ proxy: { transport: "unix", path: socket } });
    return { url: "http://localhost", place: `unix:${socket}`, client };
  }
  const host = tcp?.hostname.includes(":") ? `[${tcp.hostname}]` : tcp?.hostname;
  const address = `${host}:${tcp?.port}`;
  if (tlsCert === null) return { url: `http://${address}`, place: `http://${address}` };
  const client = Deno.createHttpClient({ caCerts: [await Deno.readTextFile(tlsCert)] });
  return { url: `https://${address}`, place: `https://${address}`, client };
}
