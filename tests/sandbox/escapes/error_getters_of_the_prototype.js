// deno-lint-ignore-file
// ends: failure /^own: told 0/
// frozen: failure /Cannot redefine property: name/
((job, cb) => {
  const foreign = [];
  for (const name of ["name", "message", "stack", "cause", "toString", "statusCode"]) {
    Object.defineProperty(Error.prototype, name, {
      configurable: true,
      get() {
        if (!(this instanceof Error)) foreign.push(name);
        return { name: "own", message: `told ${foreign.length}` }[name];
      },
      set(value) {
        if (value !== null && typeof value === "object" && !(value instanceof Object)) {
          foreign.push(name);
        }
      },
    });
  }
  const error = new Error();
  Promise.reject(error);
});
