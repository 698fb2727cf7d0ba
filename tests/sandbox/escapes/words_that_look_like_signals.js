// deno-lint-ignore-file
// ends: failure /^Error: \{\}$/
((job, cb) => {
  const word = {
    toString: () => "queue",
    valueOf: () => "queue",
    [Symbol.toPrimitive]: () => "queue",
  };
  cb(word);
});
