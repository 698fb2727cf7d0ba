// The way to a machine's screen: a ticket that works once, the password, the viewer; and all of it again when
// the connection was lost.

import { signal } from "@preact/signals";
import { type Call, read, send, wordsOf } from "../../client/client.ts";
import type { Answers } from "../../client/schema.ts";
import type { OpenScreen } from "./screen.ts";

/** How a screen is; `lost` says what happened, and is tried again. */
export type ScreenState =
  | { readonly kind: "connecting" }
  | { readonly kind: "connected" }
  | { readonly kind: "lost"; readonly why: string };

/** Milliseconds before another try: twice as many after each, at most the last. */
const RETRY_FIRST_MS = 500;
const RETRY_MAX_MS = 15_000;

/**
 * Keeps the screen of a machine in a box until it is closed.
 * @param look asks again whether the console listens: when the screen was lost, and before it is opened again
 */
export function openConnection(uuid: string, box: HTMLElement, look: () => Promise<boolean>) {
  const state = signal<ScreenState>({ kind: "connecting" });
  const fitted = signal(true);
  const closing = new AbortController();
  let screen: OpenScreen | undefined;
  let timer: number | undefined;
  let retryMs = RETRY_FIRST_MS;

  const connect = async () => {
    try {
      const { url, password, openScreen } = await wayTo(uuid, closing.signal);
      if (closing.signal.aborted) return;
      screen = openScreen(box, url, password, {
        onConnected() {
          retryMs = RETRY_FIRST_MS;
          state.value = { kind: "connected" };
        },
        onEnded: (refusal) =>
          lost(refusal === undefined ? "The connection ended" : `No screen: ${refusal}`),
      });
      screen.scale(fitted.value);
    } catch (error) {
      if (!closing.signal.aborted) lost(wordsOf(error));
    }
  };
  const lost = (why: string) => {
    screen = undefined;
    state.value = { kind: "lost", why };
    void look();
    retry();
  };
  const retry = () => {
    timer = setTimeout(async () => {
      const listens = await look();
      if (closing.signal.aborted) return;
      if (listens) void connect();
      else retry();
    }, retryMs);
    retryMs = Math.min(2 * retryMs, RETRY_MAX_MS);
  };
  void connect();
  return {
    state,
    fitted,
    scale(on: boolean) {
      fitted.value = on;
      screen?.scale(on);
    },
    focus: () => screen?.focus(),
    blur: () => screen?.blur(),
    sendCtrlAltDel: () => screen?.sendCtrlAltDel(),
    close() {
      closing.abort();
      clearTimeout(timer);
      screen?.close();
    },
  };
}

/** @see openConnection */
export type ScreenConnection = ReturnType<typeof openConnection>;

/** Where the screen is, its password, and what draws it. @throws {CallError} */
async function wayTo(uuid: string, signal: AbortSignal) {
  const viewer = import("./screen.ts").catch(() => {
    throw new Error("Cannot load the viewer: load the page again");
  });
  const path = `/agent/v1/machines/${uuid}`;
  const call: Call = { method: "POST", path: `${path}/console-tickets` };
  const [{ openScreen }, { vnc }, ticket] = await Promise.all([
    viewer,
    read("GET /agent/v1/machines/{uuid}/vnc", `${path}/vnc`, signal),
    send(call, signal) as Promise<Answers["POST /agent/v1/machines/{uuid}/console-tickets"]>,
  ]);
  // A proxy in between has another scheme or name than the agent.
  const { pathname, search } = new URL(ticket.url);
  const url = new URL(pathname + search, location.origin.replace(/^http/, "ws"));
  return { url: url.href, password: vnc.password, openScreen };
}
