// Notifies systemd, as sd_notify(3) does, that the agent is ready, alive or stopping: a datagram to the socket that
// systemd names. SMF has no such protocol.

import { join } from "@std/path";
import { messageOf } from "../domain/error.ts";
import type { Log } from "../metrics/log.ts";

interface ServiceNotice {
  /** Reports that the agent answers requests, and sends watchdog notices from then on if systemd asks for them. */
  ready(urls: readonly string[]): Promise<void>;
  /** Reports that the agent is stopping. */
  stopping(): Promise<void>;
  close(): void;
}

/** Notices per watchdog interval. */
const SIGNS_PER_WATCHDOG = 3;

/**
 * Opens the connection to systemd; without systemd, notices are dropped.
 * @param env with NOTIFY_SOCKET and WATCHDOG_USEC
 * @see sd_notify(3), sd_watchdog_enabled(3); abstract sockets (`@name`) are not supported
 */
export function openServiceNotice(
  env: Readonly<Record<string, string>>,
  { log }: { readonly log: Log },
): ServiceNotice {
  const path = env.NOTIFY_SOCKET;
  if (path === undefined || path === "") return SILENCE;
  const socket = openSender(path, log);
  if (socket === undefined) return SILENCE;
  const watchdogMs = watchdogOf(env);
  let timer: ReturnType<typeof setInterval> | undefined;
  // Sent from the event loop that answers requests: if it hangs, so do the notices.
  const sign = () => socket.send("WATCHDOG=1");
  return {
    async ready(urls) {
      await socket.send(`READY=1\nSTATUS=Listening on ${urls.join(" ")}`);
      if (watchdogMs === undefined) return;
      timer = setInterval(sign, watchdogMs / SIGNS_PER_WATCHDOG);
      Deno.unrefTimer(timer);
    },
    stopping: () => socket.send("STOPPING=1\nSTATUS=Finishing running tasks"),
    close() {
      clearInterval(timer);
      socket.close();
    },
  };
}

const SILENCE: ServiceNotice = {
  ready: async () => {},
  stopping: async () => {},
  close: () => {},
};

/** Milliseconds; undefined when systemd does not watch this process. */
function watchdogOf(
  { WATCHDOG_USEC, WATCHDOG_PID }: Readonly<Record<string, string>>,
): number | undefined {
  if (WATCHDOG_PID !== undefined && WATCHDOG_PID !== `${Deno.pid}`) return undefined;
  const microseconds = Number(WATCHDOG_USEC);
  return Number.isSafeInteger(microseconds) && microseconds > 0 ? microseconds / 1000 : undefined;
}

/** A socket of this process: systemd identifies the sender by its credentials. */
function openSender(
  path: string,
  log: Log,
): { send(text: string): Promise<void>; close(): void } | undefined {
  const folder = Deno.makeTempDirSync({ prefix: "zonewright-notice-" });
  try {
    const socket = Deno.listenDatagram({ transport: "unixpacket", path: join(folder, "socket") });
    return {
      async send(text) {
        try {
          await socket.send(new TextEncoder().encode(text), { transport: "unixpacket", path });
        } catch (error) {
          log.warn("service manager not notified", { error: messageOf(error) });
        }
      },
      close: () => socket.close(),
    };
  } catch (error) {
    log.warn("service manager not notified", { error: messageOf(error) });
    return undefined;
  } finally {
    // The file was needed only to open the socket.
    Deno.removeSync(folder, { recursive: true });
  }
}
