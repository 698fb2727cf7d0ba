// deno-lint-ignore-file
// ends: failure /^An error that cannot be read \(task "prepare"\)$/
// Whatever looks at the thrown value meets a trap that throws the next one of its kind.
(() => {
  const make = () =>
    new Proxy({}, {
      get(_target, trap) {
        return () => {
          throw make();
        };
      },
    });
  const traps = make();
  throw new Proxy(class {}, traps);
});
