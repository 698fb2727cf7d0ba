// deno-lint-ignore-file
// ends: success [[],true]
((job, cb) => {
  const foreign = [];
  const callback = new Proxy(() => {}, {
    apply(_target, self, args) {
      for (const each of [self, args, ...args]) {
        if (each !== undefined && !(each instanceof Object)) foreign.push(typeof each);
      }
      cb(null, [foreign, args.length === 1]);
    },
  });
  setTimeout(callback, 0, {});
});
