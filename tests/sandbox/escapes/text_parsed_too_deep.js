// deno-lint-ignore-file
// ends: success [true,true,"RangeError"]
((job, cb) => {
  const text = "[".repeat(200_000) + "]".repeat(200_000);
  const deep = JSON.parse(text);
  const walk = (list) => list.length === 0 ? 0 : 1 + walk(list[0]);
  let thrown;
  try {
    walk(deep);
  } catch (error) {
    thrown = error instanceof RangeError ? error.name : "foreign";
  }
  cb(null, [Array.isArray(deep), deep.length === 1, thrown]);
});
