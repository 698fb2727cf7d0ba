// deno-lint-ignore-file
// ends: success [true,0]
((job, cb) => {
  const foreign = [];
  const look = (value) => {
    const object = (typeof value === "object" || typeof value === "function") && value !== null;
    if (object && value !== globalThis && !(value instanceof Object)) foreign.push(typeof value);
  };
  const target = {};
  const trap = (name) => (...args) => {
    args.slice(1).forEach(look);
    return Reflect[name](...args);
  };
  const names = ["get", "set", "has", "getOwnPropertyDescriptor", "defineProperty"];
  const handler = Object.fromEntries(names.map((name) => [name, trap(name)]));
  const around = new Proxy(globalThis, handler);
  around.probe = vmadm;
  "Deno" in around;
  around.Deno;
  try {
    Object.setPrototypeOf(globalThis, new Proxy(target, handler));
    nothingOfThisName;
  } catch {
    // Neither has to be allowed.
  }
  cb(null, [around.probe === vmadm, foreign.length]);
});
