// deno-lint-ignore-file
// ends: success "closed"
// The whole platform, as if every other layer had been passed: what is left is what Deno refuses.
(async (job, cb) => {
  if (typeof foreign === "undefined") return cb(null, "closed");
  const { Deno, fetch, process, WebSocket } = foreign.outside ?? {};
  if (Deno === undefined) return cb(null, []);
  const { folder = "/tmp", port = 1, secret = "/etc/passwd" } = job.params ?? {};
  const attempts = {
    read: () => Deno.readTextFileSync(secret),
    "read by hand": () => Deno.openSync("/proc/self/environ"),
    list: () => [...Deno.readDirSync("/")],
    stat: () => Deno.statSync(secret),
    link: () => Deno.readLinkSync("/proc/self/exe"),
    folder: () => Deno.makeTempDirSync(),
    write: () => Deno.writeTextFileSync(folder + "/written", "x"),
    create: () => Deno.mkdirSync(folder + "/made"),
    remove: () => Deno.removeSync(secret),
    rename: () => Deno.renameSync(secret, folder + "/moved"),
    "make a link": () => Deno.symlinkSync(secret, folder + "/link"),
    connect: () => Deno.connect({ port }),
    "connect by a path": () => Deno.connect({ transport: "unix", path: folder + "/socket" }),
    listen: () => Deno.listen({ port: 0 }),
    fetch: () => fetch("http://127.0.0.1:" + port),
    "fetch a file": () => fetch("file://" + secret),
    resolve: () => Deno.resolveDns("localhost", "A"),
    socket: () =>
      new Promise((kept, broken) => {
        const socket = new WebSocket("ws://127.0.0.1:" + port);
        socket.onopen = kept;
        socket.onerror = () => broken(new Error("refused"));
      }),
    environment: () => JSON.stringify(Deno.env.toObject()),
    "one variable": () => Deno.env.get("PATH"),
    run: () => new Deno.Command("/bin/true").outputSync(),
    "start a program": () =>
      new Deno.Command("/bin/sh", { args: ["-c", "touch " + folder + "/run"] }).spawn(),
    kill: () => Deno.kill(1, "SIGCONT"),
    host: () => Deno.hostname(),
    user: () => Deno.uid(),
    system: () => Deno.osRelease(),
    interfaces: () => Deno.networkInterfaces(),
    library: () => Deno.dlopen("libc.so.6", {}),
    folder_of_work: () => Deno.chdir("/tmp"),
    "ask for it": async () => {
      const { state } = await Deno.permissions.request({ name: "read" });
      if (state !== "granted") throw new Error(state);
    },
    "node:fs": () => process.getBuiltinModule("node:fs").readFileSync(secret),
    "node:os": () => process.getBuiltinModule("node:os").hostname(),
    "node:child_process": () =>
      process.getBuiltinModule("node:child_process").execSync("/bin/true"),
    "node:net": () =>
      new Promise((kept, broken) => {
        process.getBuiltinModule("node:net").connect(port, "127.0.0.1", kept).on("error", broken);
      }),
    "node:sqlite": () =>
      new (process.getBuiltinModule("node:sqlite").DatabaseSync)(folder + "/data"),
  };
  const through = [];
  for (const [name, attempt] of Object.entries(attempts)) {
    try {
      const late = new Promise((_kept, broken) =>
        setTimeout(() => broken(new Error("late")), 2000)
      );
      const answer = await Promise.race([attempt(), late]);
      through.push([name, String(answer).slice(0, 40)]);
    } catch {
      // Refused.
    }
  }
  cb(null, through);
});
