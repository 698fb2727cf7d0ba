// deno-lint-ignore-file
// ends: success "closed"
// The iterators of another realm, replaced: what got through once.
((job, cb) => {
  if (typeof foreign === "undefined") return cb(null, "closed");
  const Other = foreign.constructor;
  const taint = (value) => typeof value === "string" ? value.split("mark").join("OWNED") : value;
  let replaced = 0;
  for (const made of [Other.keys({}), Other("text")]) {
    const iterator = Other.getPrototypeOf(made[Symbol.iterator]());
    const { next } = iterator;
    try {
      iterator.next = function () {
        const { value, done } = Reflect.apply(next, this, []);
        return { value: taint(value), done };
      };
      if (iterator.next !== next) replaced += 1;
    } catch {
      // Frozen.
    }
  }
  cb(null, { changed: replaced });
});
