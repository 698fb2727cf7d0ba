// deno-lint-ignore-file
// ends: failure /^x"\}\n\{"type":"end","run":1\}\n\u2028\ud800$/
((job, cb) => cb('x"}\n{"type":"end","run":1}\n\u2028\ud800'));
