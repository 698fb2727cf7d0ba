// deno-lint-ignore-file
// ends: success "closed"
// What is missing on any object of another realm is found on its prototype.
((job, cb) => {
  if (typeof foreign === "undefined") return cb(null, "closed");
  const { prototype } = foreign.constructor;
  const names = [
    "then",
    "get",
    "set",
    "value",
    "done",
    "lineOffset",
    "cachedData",
    "microtaskMode",
  ];
  names.push(
    "importModuleDynamically",
    "parsingContext",
    "name",
    "origin",
    "stream",
    "fatal",
    "job",
  );
  names.push("toJSON", "source", "error", "strings", "wasm", "timeout", "type", "run", "ok");
  let set = 0;
  for (const name of names) {
    const values = { lineOffset: 7, microtaskMode: "afterEvaluate", strings: true, wasm: true };
    try {
      Object.defineProperty(prototype, name, {
        configurable: true,
        get() {
          if (name === "then") return undefined;
          return values[name] ?? (name === "toJSON" ? () => "OWNED" : undefined);
        },
        set(value) {
          this.stolen = value;
        },
      });
      set += 1;
    } catch {
      // Frozen.
    }
  }
  cb(null, { changed: set });
});
