// deno-lint-ignore-file
// ends: success ["","",""]
// frozen: success [null,null,null]
// What the last regular expression met is kept by the realm: nothing may have run one before.
((job, cb) => cb(null, [RegExp.input, RegExp.lastMatch, RegExp.leftContext]));
