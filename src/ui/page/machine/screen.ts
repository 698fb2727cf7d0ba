// The screen of a machine, drawn by noVNC. A browser loads this file with the first screen.

// @ts-types="../../../../vendors/novnc.d.ts"
import RFB from "@novnc/novnc";

interface ScreenEvents {
  readonly onConnected: () => void;
  /** Called once at the end. @param refusal what the console said, if it refused */
  readonly onEnded: (refusal: string | undefined) => void;
}

/** A connected screen, until close() or the end of its connection. */
export interface OpenScreen {
  /** Whether the picture is fitted to its box. */
  scale(fitted: boolean): void;
  /** Gives the keyboard to the machine. */
  focus(): void;
  blur(): void;
  sendCtrlAltDel(): void;
  /** Ends it, without an event. */
  close(): void;
}

/** The subprotocol of the agent's consoles. */
const PROTOCOL = "binary";

/**
 * Opens a screen in a box.
 * @param url of the WebSocket, with its ticket
 * @param password of the console; undefined without one
 */
export function openScreen(
  box: HTMLElement,
  url: string,
  password: string | undefined,
  { onConnected, onEnded }: ScreenEvents,
): OpenScreen {
  const rfb = new RFB(box, url, {
    wsProtocols: [PROTOCOL],
    ...(password === undefined ? {} : { credentials: { password } }),
  });
  rfb.background = "transparent";
  let closed = false;
  let refusal: string | undefined;
  rfb.addEventListener("connect", onConnected);
  rfb.addEventListener("securityfailure", (event) => {
    // noVNC says in which part of the handshake it failed.
    const { reason } = (event as CustomEvent<{ reason?: string }>).detail;
    refusal = reason ?? "the console refused the password";
  });
  rfb.addEventListener("credentialsrequired", () => {
    refusal = "the console asks for a password that the host does not name";
    rfb.disconnect();
  });
  rfb.addEventListener("disconnect", () => {
    if (!closed) onEnded(refusal);
  });
  return {
    scale: (fitted) => rfb.scaleViewport = fitted,
    focus: () => rfb.focus(),
    blur: () => rfb.blur(),
    sendCtrlAltDel: () => rfb.sendCtrlAltDel(),
    close() {
      closed = true;
      rfb.disconnect();
    },
  };
}
