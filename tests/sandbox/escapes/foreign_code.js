// deno-lint-ignore-file
// ends: success "closed"
// Code from strings in another realm.
((job, cb) => {
  if (typeof foreign === "undefined") return cb(null, "closed");
  const made = [];
  const Code = foreign.constructor.constructor;
  for (const text of ["return globalThis", "return typeof Deno", "return import('node:fs')"]) {
    try {
      made.push(typeof Code(text)());
    } catch (error) {
      made.push(error.name);
    }
  }
  cb(null, made);
});
