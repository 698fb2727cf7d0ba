// nginx with one worker that serves a folder, and wrk, which loads servers. Both are Debian packages
// and have to be installed: what they measure is skipped where they are not.

import { join } from "@std/path";

const FOLDERS = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"];
const START_MS = 5_000;

export interface Nginx {
  readonly url: string;
  readonly pid: number;
  stop(): Promise<void>;
}

/** The path of a program, or undefined. */
export async function programPath(name: string): Promise<string | undefined> {
  for (const folder of [...(Deno.env.get("PATH") ?? "").split(":"), ...FOLDERS]) {
    const path = join(folder, name);
    if (await isFile(path)) return path;
  }
  return undefined;
}

async function isFile(path: string): Promise<boolean> {
  try {
    return (await Deno.stat(path)).isFile;
  } catch {
    return false;
  }
}

/**
 * Tuned for what is measured: no log, open files kept, compressed copies made beforehand.
 * @param root what is served
 * @param folder for its own files
 */
export async function startNginx(program: string, root: string, folder: string): Promise<Nginx> {
  const port = freePort();
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `${name}_temp_path ${folder}/${name};`).join(" ");
  const configuration = join(folder, "nginx.conf");
  await Deno.writeTextFile(
    configuration,
    `worker_processes 1; daemon off; pid ${folder}/nginx.pid; error_log ${folder}/error.log;
     events { worker_connections 512; }
     http {
       access_log off; types { application/json json; } sendfile on; tcp_nopush on;
       keepalive_requests 1000000000; gzip_static on; open_file_cache max=1000;
       ${temporary}
       server { listen 127.0.0.1:${port}; root ${root}; }
     }`,
  );
  const process = new Deno.Command(program, {
    args: ["-c", configuration, "-e", join(folder, "error.log")],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  const url = `http://127.0.0.1:${port}`;
  await answers(url);
  return {
    url,
    pid: process.pid,
    stop: async () => {
      process.kill("SIGTERM");
      await process.status;
    },
  };
}

/** Free now: nginx cannot choose one itself. */
function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

async function answers(url: string): Promise<void> {
  const deadline = performance.now() + START_MS;
  for (;;) {
    try {
      await (await fetch(url)).body?.cancel();
      return;
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

/** What wrk said of a server. */
export interface Load {
  readonly requests: number;
  readonly perSecond: number;
  readonly p99Ms: number;
}

/** Asks for one address over kept-alive connections for some seconds. */
export async function load(
  program: string,
  url: string,
  options: {
    readonly seconds: number;
    readonly connections: number;
    readonly headers: Readonly<Record<string, string>>;
  },
): Promise<Load> {
  const { seconds, connections, headers } = options;
  const sent = Object.entries(headers).flatMap(([name, value]) => ["-H", `${name}: ${value}`]);
  const args = ["-t1", `-c${connections}`, `-d${seconds}s`, "--latency", ...sent, url];
  const { stdout } = await new Deno.Command(program, { args }).output();
  const text = new TextDecoder().decode(stdout);
  if (/Non-2xx|Socket errors/.test(text)) throw new Error(`${url} answered with errors:\n${text}`);
  const requests = Number(/(\d+) requests in/.exec(text)?.[1]);
  const perSecond = Number(/Requests\/sec: +([\d.]+)/.exec(text)?.[1]);
  const [, number, unit = ""] = /99% +([\d.]+)(us|ms|s)/.exec(text) ?? [];
  const scale: Record<string, number> = { us: 0.001, ms: 1, s: 1000 };
  return { requests, perSecond, p99Ms: Number(number) * (scale[unit] ?? Number.NaN) };
}
