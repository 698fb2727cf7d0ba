// deno-lint-ignore-file
// ends: success [[],"TypeError"]
(function (job, cb) {
  const foreign = [];
  (function sloppy() {
    let at = arguments.callee;
    for (let depth = 0; depth < 10 && at; depth++) {
      if (!(at instanceof Function)) foreign.push(depth);
      at = at.caller;
    }
  })();
  const own = function () {
    return sloppy.call(null);
  };
  function sloppy() {
    return sloppy.caller === own && arguments.callee === sloppy;
  }
  if (!own()) foreign.push("own caller");
  [1].map(sloppy);
  try {
    cb.arguments;
  } catch (error) {
    cb(null, [foreign, error instanceof TypeError ? error.name : "foreign"]);
  }
});
