// Carries VNC viewers to the console of a machine: every connection to a local port becomes a WebSocket
// to the agent. RFB asks for each picture, so what comes back is never more than a viewer wanted; the
// bound below only ends one that has stopped to read.

/** Bytes that are read from a viewer at once. */
const READ_BYTES = 64 * 1024;
/** Bytes that may wait in a WebSocket before the viewer is read again. */
const OUTGOING_BYTES_MAX = 256 * 1024;
/** Bytes for a viewer that it has not taken yet. */
const INCOMING_BYTES_MAX = 64 * 1024 * 1024;
const DRAIN_MS = 10;
const NORMAL = 1000;

/** Where viewers are carried to. */
export interface RelayOptions {
  readonly url: string;
  /** What is shown to the agent with each WebSocket: its token, if there is one. */
  readonly headers: Readonly<Record<string, string>>;
  /** The way to an agent on a unix socket, or with a certificate that only its caller trusts. */
  readonly http: Deno.HttpClient | undefined;
  /** Ends everything. */
  readonly signal: AbortSignal;
  /** Told of connections that came to nothing. */
  readonly note: (line: string) => void;
}

/** A relay that takes connections. */
export interface Relay {
  readonly port: number;
  /** Settles once the listener and every connection are closed. */
  readonly done: Promise<void>;
}

/** Takes connections until the signal is aborted. */
export function openRelay(listener: Deno.TcpListener, options: RelayOptions): Relay {
  const carrying = new Set<Promise<void>>();
  const stop = () => listener.close();
  if (options.signal.aborted) stop();
  else options.signal.addEventListener("abort", stop, { once: true });
  const accept = async () => {
    for await (const viewer of listener) {
      const carried: Promise<void> = carry(viewer, options).finally(() => carrying.delete(carried));
      carrying.add(carried);
    }
    await Promise.all(carrying);
  };
  return { port: listener.addr.port, done: accept() };
}

async function carry(viewer: Deno.TcpConn, options: RelayOptions): Promise<void> {
  const { url, headers, http, signal, note } = options;
  const socket = new WebSocket(url, {
    protocols: ["binary"],
    headers,
    ...(http === undefined ? {} : { client: http }),
  });
  socket.binaryType = "arraybuffer";
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  let open = true;
  const end = () => {
    if (open) viewer.close();
    open = false;
    if (socket.readyState < WebSocket.CLOSING) socket.close(NORMAL);
  };
  const write = openViewerWriter(viewer, end);
  let answered = false;
  socket.onopen = () => {
    answered = true;
    carryFromViewer(viewer, socket).then(end, end);
  };
  socket.onmessage = ({ data }) => {
    if (data instanceof ArrayBuffer) write(new Uint8Array(data));
  };
  // The close event follows, and has the reason where there is one.
  socket.onerror = () => {};
  socket.onclose = ({ reason }) => {
    end();
    if (!answered) note("The agent has refused a console: zonewright machine get tells the state");
    else if (reason !== "") note(`A console was closed: ${reason}`);
    resolve();
  };
  signal.addEventListener("abort", end, { once: true });
  await closed;
  signal.removeEventListener("abort", end);
}

async function carryFromViewer(viewer: Deno.TcpConn, socket: WebSocket): Promise<void> {
  const buffer = new Uint8Array(READ_BYTES);
  while (socket.readyState === WebSocket.OPEN) {
    const count = await viewer.read(buffer);
    if (count === null || socket.readyState !== WebSocket.OPEN) return;
    socket.send(buffer.slice(0, count));
    while (socket.readyState === WebSocket.OPEN && socket.bufferedAmount > OUTGOING_BYTES_MAX) {
      await new Promise((resolve) => setTimeout(resolve, DRAIN_MS));
    }
  }
}

function openViewerWriter(
  viewer: Deno.TcpConn,
  end: () => void,
): (bytes: Uint8Array<ArrayBuffer>) => void {
  let waiting = 0;
  let writing: Promise<void> = Promise.resolve();
  const writeAll = async (bytes: Uint8Array<ArrayBuffer>) => {
    for (let at = 0; at < bytes.length;) at += await viewer.write(bytes.subarray(at));
    waiting -= bytes.length;
  };
  return (bytes) => {
    waiting += bytes.length;
    if (waiting > INCOMING_BYTES_MAX) return end();
    writing = writing.then(() => writeAll(bytes)).catch(end);
  };
}
