// deno-lint-ignore-file
// ends: success [[],"TypeError"]
((job, cb) => {
  const found = [];
  function walk() {
    let caller = walk;
    try {
      for (let depth = 0; depth < 10 && caller; depth++) {
        caller = caller.caller;
        if (caller && !(caller instanceof Function)) found.push(depth);
      }
    } catch (error) {
      if (!(error instanceof TypeError)) found.push("foreign error");
    }
  }
  walk();
  setTimeout(() => {
    walk();
    try {
      setTimeout.caller;
    } catch (error) {
      cb(null, [found, error instanceof TypeError ? "TypeError" : "foreign"]);
    }
  }, 0);
});
