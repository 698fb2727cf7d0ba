// Answers whose body is there whole: it can be sent in one piece, with its length.

/** Bytes or text of a body, by its answer. */
export const wholeBodies: WeakMap<Response, string | Uint8Array<ArrayBuffer>> = new WeakMap();

function isBytes(body: unknown): body is Uint8Array<ArrayBuffer> {
  return body instanceof Uint8Array;
}

/** A Response that keeps a whole body. */
export class KnownResponse extends Response {
  constructor(body?: BodyInit | null, init?: ResponseInit) {
    super(body, init);
    if (typeof body === "string" || isBytes(body)) wholeBodies.set(this, body);
  }

  /** Node's own shares a stream with the answer, and ends it when the collector takes a copy that nobody read. */
  override clone(): Response {
    const whole = wholeBodies.get(this);
    if (whole === undefined || this.bodyUsed) return super.clone();
    const { status, statusText, headers } = this;
    return new KnownResponse(whole, { status, statusText, headers });
  }
}
