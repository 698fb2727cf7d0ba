// Looks at /stats again and again, in a thread of its own, so that what a load costs the test that makes it
// is not taken for a silence of the agent.

import { RawConnection } from "./raw_connection.ts";

const LOOK_MS = 10;

/** What a watch has seen. */
export interface Watched {
  readonly longestMs: number;
  readonly looks: number;
  /** Why it could not go on. */
  readonly failure?: string;
}

const post: (message: Watched | "ready") => void = Reflect.get(globalThis, "postMessage");

let over = false;
let longestMs = 0;
let looks = 0;
let askedAtMs = 0;

async function watch(url: string): Promise<void> {
  const connection = await RawConnection.open(url);
  post("ready");
  while (!over) {
    askedAtMs = performance.now();
    await connection.send([{ method: "GET", path: "/stats" }]);
    const { status, text } = await connection.answer();
    longestMs = Math.max(longestMs, performance.now() - askedAtMs);
    looks += 1;
    if (status !== 200) throw new Error(`GET /stats was answered ${status} ${text}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  connection.close();
}

/** The url of the agent at first, then `stop`. */
Reflect.set(globalThis, "onmessage", ({ data }: MessageEvent<string>) => {
  if (data === "stop") return void (over = true);
  watch(data).then(
    () => post({ longestMs, looks }),
    (error) => {
      const silentMs = performance.now() - askedAtMs;
      post({ longestMs: Math.max(longestMs, silentMs), looks, failure: String(error) });
    },
  );
});
