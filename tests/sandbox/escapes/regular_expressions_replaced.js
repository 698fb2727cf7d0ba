// deno-lint-ignore-file
// ends: success "%s x"
// frozen: failure /Cannot assign to "exec" of the language: it is frozen/
((job, cb) => {
  const foreign = [];
  const look = (self, args) => {
    for (const each of [self, ...args]) {
      if (typeof each === "object" && !(each instanceof Object)) foreign.push(typeof each);
    }
  };
  for (const name of ["exec", "test", Symbol.replace, Symbol.split, Symbol.match]) {
    RegExp.prototype[name] = function (...args) {
      look(this, args);
      return name === Symbol.replace ? args[0] : null;
    };
  }
  console.log("%s", {});
  String.prototype.replace = function (...args) {
    look(this, args);
    return { toString: () => '"}\n' };
  };
  console.log("%s", {});
  cb(null, foreign.length === 0 ? "%s x" : foreign);
});
