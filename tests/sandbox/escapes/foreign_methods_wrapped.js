// deno-lint-ignore-file
// ends: success "closed"
// Wraps every method that an object of another realm leads to, and changes each text that passes.
((job, cb) => {
  if (typeof foreign === "undefined") return cb(null, "closed");
  const { apply, ownKeys, getPrototypeOf, getOwnPropertyDescriptor, defineProperty } = Reflect;
  const { replaceAll } = String.prototype;
  const taint = (value) =>
    typeof value === "string" ? apply(replaceAll, value, ["mark", "OWNED"]) : value;
  const { language } = foreign;
  const seen = new Set();
  const open = Object.values(language);
  const made = [language.Object.keys({}), language.Object("text"), new language.Map()];
  for (const one of made) open.push(getPrototypeOf(one[Symbol.iterator]()));
  let wrapped = 0;
  while (open.length > 0) {
    const holder = open.pop();
    if (Object(holder) !== holder || seen.has(holder)) continue;
    seen.add(holder);
    open.push(getPrototypeOf(holder));
    for (const key of ownKeys(holder)) {
      const property = getOwnPropertyDescriptor(holder, key);
      open.push(property.value, property.get, property.set);
      const own = property.value;
      if (typeof own !== "function" || key === "constructor") continue;
      try {
        holder[key] = function (...args) {
          return taint(apply(own, this, args.map(taint)));
        };
        if (holder[key] !== own) wrapped += 1;
      } catch {
        // Fixed.
      }
    }
  }
  cb(null, { changed: wrapped });
});
