// The part of @novnc/novnc that the web console uses: the package ships no types.

/** A connection to a screen; `disconnect` is its last event. */
declare class RFB extends EventTarget {
  constructor(
    target: object,
    url: string,
    options: { credentials?: { password: string }; shared?: boolean; wsProtocols?: string[] },
  );
  /** Shrinks or grows the picture to its box. */
  scaleViewport: boolean;
  background: string;
  focus(): void;
  blur(): void;
  disconnect(): void;
  sendCtrlAltDel(): void;
}

export { RFB as default };
