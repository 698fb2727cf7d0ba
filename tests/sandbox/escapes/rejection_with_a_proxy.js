// deno-lint-ignore-file
// ends: failure /seen: \[\]/
// The reason of a rejection goes through the guest: its traps must not be given foreign objects.
((job, cb) => {
  const foreign = [];
  const check = (...values) => {
    for (const value of values) {
      const object = typeof value === "object" || typeof value === "function";
      if (object && value !== null && value !== reason && !(value instanceof Object)) {
        foreign.push(typeof value);
      }
    }
  };
  const target = {};
  const reason = new Proxy(target, {
    get(of, key, receiver) {
      check(of, receiver);
      return key === "message" ? `seen: ${JSON.stringify(foreign)}` : undefined;
    },
    has(of) {
      check(of);
      return true;
    },
    getPrototypeOf(of) {
      check(of);
      return Error.prototype;
    },
  });
  Promise.reject(reason);
});
