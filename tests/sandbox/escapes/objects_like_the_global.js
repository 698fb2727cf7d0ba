// deno-lint-ignore-file
// ends: success ["own",1,"number","undefined",[],false]
// The constructor behind the global object makes others that reach through to the same names.
((job, cb) => {
  const Global = globalThis.constructor;
  const like = new Global();
  like.probe = 1;
  const foreign = [];
  const heirs = [like, Global(), Object.create(globalThis), new (class extends Global {})()];
  for (const heir of heirs) {
    for (const key of Reflect.ownKeys(heir)) {
      const value = heir[key];
      const object = (typeof value === "object" || typeof value === "function") && value !== null;
      if (object && !(value instanceof Object)) foreign.push(String(key));
    }
  }
  const kind = like instanceof Object && Global instanceof Function ? "own" : "foreign";
  cb(null, [kind, like.probe, typeof probe, typeof like.Deno, foreign, like === globalThis]);
});
