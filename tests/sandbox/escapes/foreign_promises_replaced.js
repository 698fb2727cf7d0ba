// deno-lint-ignore-file
// ends: success "closed"
// Every await of another realm asks its promises for their constructor and their then.
((job, cb) => {
  if (typeof foreign === "undefined") return cb(null, "closed");
  const Other = foreign.language.Promise;
  const { then } = Other.prototype;
  const replacements = {
    then(kept, broken) {
      return Reflect.apply(then, this, [(value) => kept?.(value === 1 ? 2 : value), broken]);
    },
    constructor: function () {},
    catch: () => undefined,
    finally: () => undefined,
  };
  let changed = 0;
  for (const [name, value] of Object.entries(replacements)) {
    try {
      Other.prototype[name] = value;
      if (Other.prototype[name] === value) changed += 1;
    } catch {
      // Fixed.
    }
  }
  try {
    Object.defineProperty(Other, Symbol.species, { get: () => () => {} });
    changed += 1;
  } catch {
    // Fixed.
  }
  cb(null, { changed });
});
