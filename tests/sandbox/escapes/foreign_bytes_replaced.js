// deno-lint-ignore-file
// ends: success "closed"
// The bytes of another realm: who asks them for anything gives them away, and they are written over.
((job, cb) => {
  if (typeof foreign === "undefined") return cb(null, "closed");
  const { Uint8Array: Bytes, Object: Other } = foreign.language;
  const typed = Other.getPrototypeOf(Bytes.prototype);
  const word = [109, 97, 114, 107];
  const spoil = (bytes, length) => {
    for (let at = 0; at + 3 < length; at++) {
      if (word.every((code, index) => bytes[at + index] === code)) bytes[at] = 77;
    }
  };
  let replaced = 0;
  for (const name of ["length", "byteLength", "byteOffset", "buffer"]) {
    const { get } = Object.getOwnPropertyDescriptor(typed, name);
    const length = Object.getOwnPropertyDescriptor(typed, "length").get;
    try {
      Object.defineProperty(typed, name, {
        configurable: true,
        get() {
          const bytes = this;
          setTimeout(() => spoil(bytes, 65536), 0);
          spoil(bytes, Reflect.apply(length, bytes, []));
          return Reflect.apply(get, bytes, []);
        },
      });
      replaced += 1;
    } catch {
      // Frozen.
    }
  }
  for (const name of ["subarray", "set", "indexOf", "slice", "fill"]) {
    const own = typed[name];
    try {
      typed[name] = function (...args) {
        spoil(this, 65536);
        return Reflect.apply(own, this, args);
      };
      if (typed[name] !== own) replaced += 1;
    } catch {
      // Frozen.
    }
  }
  cb(null, { changed: replaced });
});
