// deno-lint-ignore-file
// ends: failure /Cannot record the result: (it is nested deeper than 100 levels|Maximum call stack size exceeded)/
// The second words are those of an older V8, as Node 22 has: it gives up before the depth can be looked at.
((job, cb) => {
  let deep = [];
  for (let depth = 0; depth < 200_000; depth++) deep = [deep];
  cb(null, deep);
});
