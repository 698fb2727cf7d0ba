// The agent itself: whether it answers where the configuration says that it listens.

import { messageOf } from "../domain/error.ts";
import { type Check, ok } from "./check.ts";

/** Milliseconds for an answer. */
const ANSWER_MS = 5_000;

/** Where the agent listens, as it is configured. */
export interface ListenPlaces {
  readonly tcp: { readonly hostname: string; readonly port: number } | null;
  readonly socket: string | null;
}

/** Whether an agent answers. */
export function agentCheck(places: ListenPlaces): Check {
  return {
    name: "agent",
    about: "an agent answers where the configuration says",
    async examine() {
      const { tcp, socket } = places;
      const host = tcp?.hostname.includes(":") ? `[${tcp.hostname}]` : tcp?.hostname;
      const url = tcp === null ? "http://localhost" : `http://${host}:${tcp.port}`;
      const place = tcp === null ? `unix:${socket}` : url;
      const client = tcp === null && socket !== null
        ? Deno.createHttpClient({ proxy: { transport: "unix", path: socket } })
        : undefined;
      try {
        const response = await fetch(`${url}/ping`, {
          signal: AbortSignal.timeout(ANSWER_MS),
          ...(client === undefined ? {} : { client }),
        });
        const text = await response.text();
        if (!response.ok) return { outcome: "fail", detail: `${place} answers ${response.status}` };
        const pid = /"pid":\s*(\d+)/.exec(text)?.[1] ?? "unknown";
        return ok(`${place}, pid ${pid}`);
      } catch (error) {
        return {
          outcome: "warn",
          detail: `nobody answers at ${place}: ${messageOf(error)}`,
          fix:
            "start the service: zonewright install, systemctl start zonewright, svcadm enable zonewright",
        };
      } finally {
        client?.close();
      }
    },
  };
}
