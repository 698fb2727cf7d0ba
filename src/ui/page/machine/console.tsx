// The screen of a machine, with its state, the keys that a browser keeps for itself, and its size.

import { machineStateText } from "../../part/shown.tsx";
import { signal, useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { type Call, cliOf, curlOf, mayChange, read, send, wordsOf } from "../../client/client.ts";
import { Button, Empty, Terminal } from "../../part/controls.tsx";
import { nameOf } from "./actions.tsx";
import type { MachineView } from "./machine_view.ts";
import type { Answers } from "../../client/schema.ts";
import type { OpenScreen } from "./screen.ts";

interface ConsoleProps {
  readonly machine: MachineView;
  /** Reads the machine again. @returns whether its console listens */
  readonly look: () => Promise<boolean>;
}

/** Milliseconds until a machine that has just started is read again, to see whether its console listens. */
const LISTEN_MS = 2_000;

/** The screen, or the reason why there is none. */
export function Console({ machine, look }: ConsoleProps): JSX.Element {
  const { state, vnc } = machine;
  useEffect(() => {
    if (state !== "running" || vnc !== null) return;
    const timer = setTimeout(look, LISTEN_MS);
    return () => clearTimeout(timer);
  }, [machine]);
  return (
    <section class="console-part" aria-label="Console">
      <h2>Console</h2>
      {!mayChange()
        ? (
          <p class="muted">
            A token of scope read cannot open the screen, because a screen takes input.
          </p>
        )
        : vnc === null
        ? <NoScreen machine={machine} />
        : <Screen machine={machine} look={look} />}
      {mayChange() && vnc !== null && (
        <Terminal
          title="Open it from a terminal"
          cli={cliOf(["machine", "console", machine.uuid])}
          curl={curlOf(ticketCallOf(machine.uuid))}
        />
      )}
    </section>
  );
}

/** The call that admits one viewer; the command line opens the same console. */
function ticketCallOf(uuid: string): Call {
  return { method: "POST", path: `/agent/v1/machines/${uuid}/console-tickets` };
}

function NoScreen({ machine }: { machine: MachineView }): JSX.Element {
  const { state, uuid } = machine;
  const name = nameOf(machine);
  if (state === "stopped") {
    return (
      <Empty title={`${name} is off`} command={cliOf(["machine", "boot", uuid])}>
        <p class="muted">The screen opens here when the machine is running. Boot it above, or:</p>
      </Empty>
    );
  }
  const title = state === "running"
    ? `${name} runs, but its console does not listen yet`
    : `${name} is ${machineStateText(state)}`;
  return (
    <Empty title={title}>
      <p class="muted">The screen opens here automatically.</p>
    </Empty>
  );
}

function Screen({ machine, look }: ConsoleProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const frame = useRef<HTMLDivElement>(null);
  const opened = useSignal<ScreenConnection | undefined>(undefined);
  useEffect(() => {
    if (box.current === null) return;
    const connection = openConnection(machine.uuid, box.current, look);
    opened.value = connection;
    return () => connection.close();
  }, [machine.uuid]);
  const connection = opened.value;
  const state = connection?.state.value ?? { kind: "connecting" };
  const leave = useLeave(box, frame, connection);
  return (
    <div class="screen-frame" ref={frame}>
      <Bar connection={connection} state={state} frame={frame} />
      <div
        class={`screen screen-${state.kind}`}
        ref={box}
        onKeyDownCapture={leave.onKeyDown}
        onKeyUpCapture={leave.onKeyUp}
      />
    </div>
  );
}

interface BarProps {
  readonly connection: ScreenConnection | undefined;
  readonly state: ScreenState;
  readonly frame: { readonly current: HTMLElement | null };
}

function Bar({ connection, state, frame }: BarProps): JSX.Element {
  const off = state.kind !== "connected";
  return (
    <div class="screen-bar">
      <p class={`screen-state screen-state-${state.kind}`} role="status">{wordsFor(state)}</p>
      <Button
        kind="primary"
        disabled={off}
        label="Type into the machine; Ctrl+Alt+Shift+L releases the keyboard"
        onClick={() => connection?.focus()}
      >
        Type
      </Button>
      <KeyMenu connection={connection} disabled={off} />
      <label class="check">
        <input
          type="checkbox"
          checked={connection?.fitted.value ?? true}
          onChange={(event) => connection?.scale(event.currentTarget.checked)}
        />
        <span>Fit</span>
      </label>
      <Button
        onClick={() => {
          const done = document.fullscreenElement === null
            ? frame.current?.requestFullscreen()
            : document.exitFullscreen();
          // If the browser refuses full screen, the page stays as it is.
          done?.then(() => connection?.focus(), () => {});
        }}
      >
        Full screen
      </Button>
    </div>
  );
}

function wordsFor(state: ScreenState): string {
  if (state.kind === "lost") return `${state.why}. Connecting again`;
  return state.kind === "connected" ? "Connected" : "Connecting";
}

/** Sends keys that the browser or its system keeps for itself. */
function KeyMenu(
  { connection, disabled }: { connection: ScreenConnection | undefined; disabled: boolean },
): JSX.Element {
  const menu = useRef<HTMLDetailsElement>(null);
  return (
    <details
      class="menu"
      ref={menu}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || menu.current?.open !== true) return;
        menu.current.open = false;
        menu.current.querySelector("summary")?.focus();
      }}
    >
      <summary class="button button-plain">Keys</summary>
      <div class="menu-list">
        <Button
          kind="quiet"
          disabled={disabled}
          onClick={() => {
            connection?.sendCtrlAltDel();
            menu.current?.removeAttribute("open");
            connection?.focus();
          }}
        >
          Send Ctrl-Alt-Del
        </Button>
      </div>
    </details>
  );
}

/** Ctrl+Alt+Shift+L returns the keyboard to the page, after the keys are released: the machine has seen them pressed. */
function useLeave(
  box: { readonly current: HTMLElement | null },
  frame: { readonly current: HTMLElement | null },
  connection: ScreenConnection | undefined,
) {
  const leaving = useRef(false);
  return {
    onKeyDown: (event: KeyboardEvent) => {
      const { ctrlKey, altKey, shiftKey, code } = event;
      if (!ctrlKey || !altKey || !shiftKey || code !== "KeyL") return;
      event.preventDefault();
      event.stopPropagation();
      leaving.current = true;
    },
    onKeyUp: ({ ctrlKey, altKey, shiftKey }: KeyboardEvent) => {
      if (!leaving.current || ctrlKey || altKey || shiftKey) return;
      leaving.current = false;
      // After the viewer has sent the last key.
      setTimeout(() => {
        connection?.blur();
        if (box.current?.contains(document.activeElement)) return;
        frame.current?.querySelector<HTMLElement>(".button")?.focus();
      });
    },
  };
}

/** The state of a screen. After `lost`, which says why, it is opened again. */
type ScreenState =
  | { readonly kind: "connecting" }
  | { readonly kind: "connected" }
  | { readonly kind: "lost"; readonly why: string };

/** Milliseconds before another attempt; doubled after each, up to the second value. */
const RETRY_FIRST_MS = 500;
const RETRY_MAX_MS = 15_000;

/**
 * Keeps the screen of a machine open in a box until it is closed: gets a single-use ticket and the
 * password, opens the viewer, and all again when the connection is lost.
 * @param look checks whether the console listens: after the screen was lost, and before it is
 * opened again
 */
function openConnection(uuid: string, box: HTMLElement, look: () => Promise<boolean>) {
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

type ScreenConnection = ReturnType<typeof openConnection>;

/** The URL of the screen, its password, and the viewer. @throws {CallError} */
async function wayTo(uuid: string, signal: AbortSignal) {
  const viewer = import("./screen.ts").catch(() => {
    throw new Error("Cannot load the viewer: reload the page");
  });
  const path = `/agent/v1/machines/${uuid}`;
  const [{ openScreen }, { vnc }, ticket] = await Promise.all([
    viewer,
    read("GET /agent/v1/machines/{uuid}/vnc", `${path}/vnc`, signal),
    send(ticketCallOf(uuid), signal) as Promise<
      Answers["POST /agent/v1/machines/{uuid}/console-tickets"]
    >,
  ]);
  // A proxy in between may have another scheme or name than the agent.
  const { pathname, search } = new URL(ticket.url);
  const url = new URL(pathname + search, location.origin.replace(/^http/, "ws"));
  return { url: url.href, password: vnc.password, openScreen };
}
