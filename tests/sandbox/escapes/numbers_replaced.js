// deno-lint-ignore-file
// ends: success "own"
// What the realm takes for numbers goes to its guest as numbers, or not at all.
((job, cb) => {
  let asked = 0;
  const trap = new Proxy({}, {
    get(_target, name) {
      asked += 1;
      return name === Symbol.toPrimitive ? () => "\t1\n" : undefined;
    },
  });
  globalThis.Number = globalThis.String = () => trap;
  setTimeout(() => cb(null, asked > 0 ? "own" : "not asked"), 1);
  clearTimeout(1e9);
});
