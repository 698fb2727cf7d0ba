// deno-lint-ignore-file
// ends: success "OK"
// frozen: failure /Cannot redefine property: Symbol\(Symbol\.species\)/
((job, cb) => {
  job[Symbol.toPrimitive] = () => "x";
  Object.defineProperty(cb, Symbol.hasInstance, { value: () => true });
  Object.defineProperty(Promise, Symbol.species, { value: function () {} });
  cb();
});
