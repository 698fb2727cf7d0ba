// Calls of everything that the adapter for Node offers, in one program. Run by Deno and by Node behind the
// adapter, it has to print the same lines: the name of each call and what came of it.

/** One call; what it answers is printed. */
type Call = () => unknown;

const folder = Deno.args[0] ?? "";
const at = (name: string) => `${folder}/${name}`;
const bytesOf = (text: string) => new TextEncoder().encode(text);
const textOf = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

async function caught(call: Call): Promise<unknown> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof Error)) return `throws ${error}`;
    const known = Object.values(Deno.errors).some((one) => error instanceof one);
    // The program tells errors of the system by their number.
    const [number = ""] = / \(os error \d+\)/.exec(error.message) ?? [];
    return `throws ${known ? error.constructor.name : error.name}${number}`;
  }
}

const FILES: Readonly<Record<string, Call>> = {
  writeTextFile: () => Deno.writeTextFile(at("a"), "alpha", { mode: 0o640 }),
  "writeTextFile append": () => Deno.writeTextFile(at("a"), " beta", { append: true }),
  "writeTextFile createNew": () => Deno.writeTextFile(at("a"), "", { createNew: true }),
  writeFile: () => Deno.writeFile(at("b"), bytesOf("bytes")),
  readTextFile: () => Deno.readTextFile(at("a")),
  "readTextFile missing": () => Deno.readTextFile(at("none")),
  readFile: async () => textOf(await Deno.readFile(at("b"))),
  stat: async () => {
    const { isFile, isDirectory, size, mode, mtime } = await Deno.stat(at("a"));
    return [isFile, isDirectory, size, (mode ?? 0) & 0o777, mtime instanceof Date];
  },
  statSync: () => Deno.statSync(folder).isDirectory,
  "statSync below a file": () => Deno.statSync(at("a/b")),
  mkdir: () => Deno.mkdir(at("folder/below"), { recursive: true }),
  "mkdir again": () => Deno.mkdir(at("folder")),
  mkdirSync: () => Deno.mkdirSync(at("other"), { mode: 0o700 }),
  readDir: async () =>
    (await Array.fromAsync(Deno.readDir(folder), (one) => [one.name, one.isDirectory])).sort(),
  readDirSync: () => Array.from(Deno.readDirSync(at("folder")), ({ name }) => name),
  copyFileSync: () => {
    Deno.copyFileSync(at("a"), at("copied"));
    return Deno.statSync(at("copied")).size;
  },
  link: () => Deno.link(at("a"), at("linked")),
  rename: () => Deno.rename(at("linked"), at("renamed")),
  lstat: async () => (await Deno.lstat(at("renamed"))).nlink,
  lstatSync: () => Deno.lstatSync(at("renamed")).isSymlink,
  realPath: async () => (await Deno.realPath(at("folder/../a"))) === Deno.realPathSync(at("a")),
  chmod: () => Deno.chmod(at("a"), 0o600),
  "chown to oneself": () => Deno.chown(at("a"), Deno.uid(), null),
  "remove a full folder": () => Deno.remove(at("folder")),
  "remove recursive": () => Deno.remove(at("folder"), { recursive: true }),
  removeSync: () => Deno.removeSync(at("renamed")),
  "removeSync missing": () => Deno.removeSync(at("renamed")),
  makeTempDir: async () =>
    (await Deno.makeTempDir({ dir: folder, prefix: "t." })).startsWith(at("t.")),
  makeTempDirSync: () => Deno.makeTempDirSync({ dir: folder, prefix: "s." }).startsWith(at("s.")),
  makeTempFile: async () => (await Deno.stat(await Deno.makeTempFile({ dir: folder }))).size,
};

async function withFile<T>(
  options: Deno.OpenOptions,
  run: (file: Deno.FsFile) => Promise<T>,
): Promise<T> {
  const file = await Deno.open(at("f"), options);
  try {
    return await run(file);
  } finally {
    file.close();
  }
}

const OPEN_FILES: Readonly<Record<string, Call>> = {
  "open, write, seek, read": () =>
    withFile({ read: true, write: true, create: true }, async (file) => {
      const written = [await file.write(bytesOf("0123456789")), file.writeSync(bytesOf("ab"))];
      await file.seek(2, Deno.SeekMode.Start);
      const buffer = new Uint8Array(4);
      const read = [await file.read(buffer), textOf(buffer)];
      file.seekSync(-2, Deno.SeekMode.End);
      return [written, read, file.readSync(buffer), textOf(buffer), await file.read(buffer)];
    }),
  "open with append": () =>
    withFile({ append: true }, async (file) => {
      await file.write(bytesOf("!"));
      return (await file.stat()).size;
    }),
  "sync, syncData, truncate": () =>
    withFile({ write: true }, async (file) => {
      await file.sync();
      await file.syncData();
      await file.truncate(3);
      return file.statSync().size;
    }),
  "a lock goes with its file": async () => {
    await withFile({ write: true }, (file) => file.lock(true));
    await withFile({ write: true }, (file) => file.lock(true));
  },
  "a lock of a folder leaves nothing beside it": async () => {
    Deno.mkdirSync(at("of-locks/one"), { recursive: true });
    for (let taken = 0; taken < 2; taken++) {
      using folder = await Deno.open(at("of-locks/one"));
      await folder.lock(true);
    }
    return [at("of-locks"), at("of-locks/one")].map((one) =>
      Array.from(Deno.readDirSync(one), ({ name }) => name)
    );
  },
  "open missing": () => Deno.open(at("none")),
  "read when closed": async () => {
    const file = await Deno.open(at("f"));
    file.close();
    return await file.read(new Uint8Array(1));
  },
  "readable of a file": async () => await new Response((await Deno.open(at("f"))).readable).text(),
};

const PROGRAMS: Readonly<Record<string, Call>> = {
  output: async () => {
    const { code, success, stdout, stderr } = await new Deno.Command("/bin/sh", {
      args: ["-c", "echo out; echo err >&2; exit 3"],
    }).output();
    return [code, success, textOf(stdout), textOf(stderr)];
  },
  "its own environment": async () => {
    const options = { args: ["-u", "A"], clearEnv: true, env: { B: "b" } };
    return textOf((await new Deno.Command("/usr/bin/env", options).output()).stdout);
  },
  "stdin and stdout": async () => {
    const child = new Deno.Command("/bin/cat", { stdin: "piped", stdout: "piped" }).spawn();
    const writer = child.stdin.getWriter();
    await writer.write(bytesOf("through"));
    await writer.close();
    return [await new Response(child.stdout).text(), (await child.status).code];
  },
  "a signal": async () => {
    const child = new Deno.Command("/bin/sleep", { args: ["60"] }).spawn();
    child.kill("SIGKILL");
    return await child.status;
  },
  "kill of an ended one": async () => {
    const child = new Deno.Command("/bin/true").spawn();
    await child.status;
    child.kill();
  },
  "Deno.kill of nobody": async () => {
    const words = await caught(() => Deno.kill(2 ** 22 + 1, "SIGTERM"));
    // Of a signal alone Deno leaves the number out.
    return String(words).replace(/ \(.*/, "");
  },
  "a missing program": () => new Deno.Command(at("none")).output(),
  "a file that is no program": () => new Deno.Command(at("a")).spawn(),
};

async function talk(listener: Deno.Listener, open: () => Promise<Deno.Conn>): Promise<unknown> {
  const accepted = listener.accept();
  const client = await open();
  const server = await accepted;
  await client.write(bytesOf("hello"));
  const buffer = new Uint8Array(3);
  const first = [await server.read(buffer), textOf(buffer)];
  const second = await server.read(buffer);
  await client.closeWrite();
  const end = await server.read(buffer);
  await server.write(bytesOf("back"));
  server.close();
  const rest = await new Response(client.readable).text();
  listener.close();
  return [first, second, end, rest, await caught(() => listener.accept())];
}

const CONNECTIONS: Readonly<Record<string, Call>> = {
  "listen, accept, connect": () => {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = listener.addr;
    return talk(listener, () => Deno.connect({ hostname: "127.0.0.1", port }));
  },
  "a unix socket": () => {
    const path = at("socket");
    const listener = Deno.listen({ transport: "unix", path });
    return talk(listener, () => Deno.connect({ transport: "unix", path }));
  },
  "an address in use": async () => {
    const first = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    try {
      return await caught(() => Deno.listen({ hostname: "127.0.0.1", port: first.addr.port }));
    } finally {
      first.close();
    }
  },
  "an address of another host": () => Deno.listen({ hostname: "192.0.2.1", port: 0 }),
  "a socket where a file is": () => Deno.listen({ transport: "unix", path: at("a") }),
  "a port where nobody listens": async () => {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    listener.close();
    return await caught(() => Deno.connect({ hostname: "127.0.0.1", port: listener.addr.port }));
  },
  "TLS to a port where nobody listens": async () => {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    listener.close();
    const { port } = listener.addr;
    return await caught(() => Deno.connectTls({ hostname: "127.0.0.1", port }));
  },
  "a socket that is not there": () => Deno.connect({ transport: "unix", path: at("none") }),
  "read when closed": async () => {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const client = await Deno.connect({ hostname: "127.0.0.1", port: listener.addr.port });
    client.close();
    listener.close();
    return await caught(() => client.read(new Uint8Array(1)));
  },
};

async function served(handler: Deno.ServeHandler, path: string, init?: RequestInit) {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, handler);
  try {
    const answer = await fetch(`http://127.0.0.1:${server.addr.port}${path}`, init);
    return [answer.status, answer.headers.get("content-length"), await answer.text()];
  } finally {
    await server.shutdown();
  }
}

const HTTP: Readonly<Record<string, Call>> = {
  "a text": () => served(({ url }) => new Response(new URL(url).pathname), "/a/b?c"),
  "a HEAD": () => served(() => new Response("four"), "/", { method: "HEAD" }),
  "an empty 204": () => served(() => new Response(null, { status: 204 }), "/"),
  "a body": () =>
    served(async (request) => new Response((await request.text()).toUpperCase()), "/", {
      method: "POST",
      body: "body",
    }),
  "a body that is dropped": async () => {
    const body = new Uint8Array(4_000_000);
    const dropping = async (request: Request) => {
      await request.body?.cancel();
      return new Response("dropped");
    };
    return await served(dropping, "/", { method: "POST", body });
  },
  "a copy of an answer whose other copies nobody read": async () => {
    const answer = new Response(bytesOf("kept"), { headers: { "x-name": "v" } });
    for (let round = 0; round < 20; round++) {
      for (let count = 0; count < 50; count++) answer.clone();
      // Enough garbage for a collection.
      Array.from({ length: 20 }, () => new Array(50_000).fill(round));
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    return await served(() => answer.clone(), "/");
  },
  "headers": () =>
    served(({ headers }) => new Response(headers.get("x-name")), "/", {
      headers: { "x-name": "v" },
    }),
  "what throws": () =>
    served(() => Promise.reject(new Error("no")), "/").then(([status]) => status),
  "a signal that ends the server": async () => {
    const ending = new AbortController();
    const options = { hostname: "127.0.0.1", port: 0, signal: ending.signal, onListen() {} };
    const server = Deno.serve(options, () => new Response(""));
    ending.abort();
    await server.finished;
    return await caught(() => Deno.connect({ hostname: "127.0.0.1", port: server.addr.port }));
  },
  "over TLS, with an authority and without": async () => {
    const cert = await Deno.readTextFile(`${folder}/../own.crt`);
    const key = await Deno.readTextFile(`${folder}/../own.key`);
    const listener = Deno.listenTls({ hostname: "127.0.0.1", port: 0, cert, key });
    const accepting = (async () => {
      for await (const connection of listener) {
        const answer = bytesOf("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        const count = await connection.read(new Uint8Array(1024)).catch(() => null);
        if (count !== null) await connection.write(answer);
        connection.close();
      }
    })();
    const url = `https://127.0.0.1:${listener.addr.port}/`;
    const client = Deno.createHttpClient({ caCerts: [cert] });
    const found = [
      await (await fetch(url, { client })).text(),
      await caught(() => fetch(url)),
    ];
    client.close();
    listener.close();
    await accepting;
    return found;
  },
  "a certificate that is none": () => Deno.createHttpClient({ caCerts: ["none"] }).close(),
  "over a unix socket": async () => {
    const path = at("http");
    const server = Deno.serve({ path, onListen() {} }, () => new Response("by socket"));
    const client = Deno.createHttpClient({ proxy: { transport: "unix", path } });
    try {
      return await (await fetch("http://localhost/", { client })).text();
    } finally {
      client.close();
      await server.shutdown();
    }
  },
};

const PROCESS: Readonly<Record<string, Call>> = {
  ids: () => [
    Deno.pid > 0,
    typeof Deno.uid(),
    typeof Deno.gid(),
    Deno.cwd() === Deno.realPathSync("."),
  ],
  chdir: () => {
    const before = Deno.cwd();
    Deno.chdir("/");
    const there = Deno.cwd();
    Deno.chdir(before);
    return [there, Deno.cwd() === before];
  },
  args: () => Deno.args.length,
  "build.os": () => Deno.build.os,
  hostname: () => Deno.hostname().length > 0,
  umask: () => [Deno.umask(0o027) >= 0, Deno.umask()],
  memoryUsage: () => Deno.memoryUsage().rss > 0,
  "env.get": () => [Deno.env.get("ZONEWRIGHT_NONE"), Deno.env.get("PATH") !== undefined],
  "env.toObject": () => "PATH" in Deno.env.toObject(),
  networkInterfaces: () => Deno.networkInterfaces().some(({ address }) => address === "127.0.0.1"),
  "signals": async () => {
    const { promise, resolve } = Promise.withResolvers<string>();
    const heard = () => resolve("heard");
    // A listener alone keeps no process.
    const deadline = setTimeout(() => resolve("not heard"), 60_000);
    Deno.addSignalListener("SIGUSR2", heard);
    Deno.kill(Deno.pid, "SIGUSR2");
    const word = await promise;
    clearTimeout(deadline);
    Deno.removeSignalListener("SIGUSR2", heard);
    return word;
  },
  "stdout.isTerminal": () => Deno.stdout.isTerminal(),
  "stdin.read": () => Deno.stdin.read(new Uint8Array(1)),
  "stdin.readable": () => new Response(Deno.stdin.readable).text(),
  "stderr.writeSync": () => Deno.stderr.writeSync(new Uint8Array(0)),
  consoleSize: async () => /^throws/.test(String(await caught(() => Deno.consoleSize()))),
  version: () => Deno.version.v8.length > 0,
  execPath: () => Deno.statSync(Deno.execPath()).isFile,
  "resolveDns by the hosts file": () => Deno.resolveDns("localhost", "A"),
  unrefTimer: () => Deno.unrefTimer(setTimeout(() => {}, 3_600_000)),
  "a rejection that nobody handles": async () => {
    const { promise, resolve } = Promise.withResolvers<unknown>();
    const heard = (event: PromiseRejectionEvent) => {
      event.preventDefault();
      resolve(event.reason);
    };
    addEventListener("unhandledrejection", heard);
    Promise.reject("alone");
    const reason = await promise;
    removeEventListener("unhandledrejection", heard);
    return reason;
  },
};

// Other tests of a parallel run set the mask of their process, which this one inherits.
Deno.umask(0o022);
for (const calls of [FILES, OPEN_FILES, PROGRAMS, CONNECTIONS, HTTP, PROCESS]) {
  for (const [name, call] of Object.entries(calls)) {
    console.log(`${name}: ${JSON.stringify(await caught(call))}`);
  }
}
Deno.exit(0);
