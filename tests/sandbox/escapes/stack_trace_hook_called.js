// deno-lint-ignore-file
// ends: success [[],"Error: x"]
// Gives the function that writes stacks whatever it may meet, and watches what it touches.
((job, cb) => {
  const foreign = [];
  const { apply } = Reflect;
  let looking = false;
  const look = (value) => {
    const object = (typeof value === "object" || typeof value === "function") && value !== null;
    if (object && value !== globalThis && !(value instanceof Object)) {
      foreign[foreign.length] = typeof value;
    }
  };
  for (const type of [Array, String, Object, Function, Number, Error, RegExp]) {
    for (const key of Reflect.ownKeys(type.prototype)) {
      const property = Object.getOwnPropertyDescriptor(type.prototype, key);
      if (typeof property.value !== "function" || key === "constructor") continue;
      const own = property.value;
      property.value = function (...args) {
        if (!looking) {
          looking = true;
          look(this);
          for (let at = 0; at < args.length; at++) look(args[at]);
          looking = false;
        }
        return apply(own, this, args);
      };
      try {
        Object.defineProperty(type.prototype, key, property);
      } catch {
        // Fixed by the language.
      }
    }
  }
  for (const name of ["0", "length", "getFileName", "isAsync", "getFunctionName"]) {
    Object.defineProperty(Object.prototype, name, {
      configurable: true,
      get() {
        look(this);
      },
      set(value) {
        look(this);
        look(value);
      },
    });
  }
  const error = new Error("x");
  error.toString = function () {
    look(this);
    return "Error: x";
  };
  error.stack;
  null?.x;
  try {
    null.x;
  } catch (thrown) {
    thrown.stack;
  }
  const site = new Proxy({}, {
    get: (_target, name) => {
      if (name === "getFileName") return () => "task://[prepare]";
      throw new Error("a trap");
    },
  });
  const told = Error.prepareStackTrace(error, [site, undefined, null, 1]);
  for (const name of ["0", "length", "getFileName", "isAsync", "getFunctionName"]) {
    delete Object.prototype[name];
  }
  cb(null, [foreign, told]);
});
