// deno-lint-ignore-file
// ends: success {"a":1,"b":{}}
((job, cb) => cb(null, JSON.parse('{"a":1,"__proto__":{"polluted":1},"b":{"__proto__":{"x":1}}}')));
