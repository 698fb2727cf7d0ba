// A relay between an agent and its PostgreSQL server, by the socket of a folder: it can be cut, and can lose an answer.

/** A relay that passes on what both sides send. */
export interface ServerRelay {
  /** The address of a database behind it, as `--store` takes it. @param user the owner of all unless given */
  url(database: string, user?: string): string;
  /** Breaks every connection, and takes no new one. */
  cut(): void;
  /** Takes connections again. @param server the folder of another server's socket, to lead there from now on */
  mend(server?: string): void;
  /**
   * Passes on the next piece to the server that has this text, waits until the server has answered, and breaks the
   * connection instead of passing the answer on.
   * @returns settles when that has happened
   */
  loseAnswer(text: string): Promise<void>;
  close(): void;
}

/** Opens a relay. @param folder an empty one, for its socket  @param server the folder of the server's socket */
export function openServerRelay(folder: string, server: string): ServerRelay {
  const name = ".s.PGSQL.5432";
  const open = new Set<Deno.Conn>();
  let leadsTo = server;
  const decoder = new TextDecoder();
  let lost: { readonly text: string; readonly done: () => void } | undefined;
  let listener: Deno.Listener | undefined;

  const pass = async (from: Deno.Conn, to: Deno.Conn, seen: (bytes: Uint8Array) => boolean) => {
    try {
      for await (const bytes of from.readable) {
        if (!seen(bytes)) break;
        for (let at = 0; at < bytes.length;) at += await to.write(bytes.subarray(at));
      }
    } catch {
      // Broken by the other side, or cut.
    }
    for (const one of [from, to]) {
      open.delete(one);
      try {
        one.close();
      } catch {
        // closed already
      }
    }
  };
  const relay = async (client: Deno.Conn) => {
    const host = await Deno.connect({ transport: "unix", path: `${leadsTo}/${name}` });
    open.add(client).add(host);
    let losing: (() => void) | undefined;
    void pass(client, host, (bytes) => {
      if (lost !== undefined && decoder.decode(bytes).includes(lost.text)) {
        losing = lost.done;
        lost = undefined;
      }
      return true;
    });
    void pass(host, client, () => {
      losing?.();
      return losing === undefined;
    });
  };
  const mend = (other = leadsTo) => {
    leadsTo = other;
    const listening = Deno.listen({ transport: "unix", path: `${folder}/${name}` });
    listener = listening;
    void (async () => {
      for await (const client of listening) relay(client).catch(() => client.close());
    })().catch(() => {});
  };
  const cut = () => {
    listener?.close();
    listener = undefined;
    for (const one of open) {
      try {
        one.close();
      } catch {
        // closed already
      }
    }
    open.clear();
    Deno.removeSync(`${folder}/${name}`);
  };
  mend();
  return {
    url: (database, user = "owner") =>
      `postgres://${user}@localhost/${database}?host=${encodeURIComponent(folder)}`,
    cut,
    mend,
    loseAnswer: (text) => new Promise((done) => lost = { text, done }),
    close: () => {
      if (listener !== undefined) cut();
    },
  };
}
