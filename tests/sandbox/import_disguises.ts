// Ways to import that a reader of the text may take for something else, and ways to get hold of what
// a refused import leaves behind. Each is the middle of a body, and leaves what it got in `p`.

const DISGUISES: readonly (readonly [name: string, statements: string])[] = [
  ["a division after of", "const of = 1; a?.of\n/ (p = import('x')) /g;"],
  ["a division after null", "const of = 1; null\nof\n/ (p = import('x')) /g;"],
  ["a division after a chained name", "a?.return\n/ (p = import('x')) / 1;"],
  ["a division after async", "const async = 1; async\n/ (p = import('x')) /g;"],
  ["a division after yield", "var yield = 1; yield\n/ (p = import('x')) /g;"],
  ["a division after let", "var let = 1; let\n/ (p = import('x')) /g;"],
  [
    "a division after await in a script",
    "(function () { var await = 1; await\n/ (p = import('x')) /g; })();",
  ],
  ["a division after get", "const get = 1; get\n/ (p = import('x')) /g;"],
  ["a division after static", "var static = 1; static\n/ (p = import('x')) /g;"],
  ["a division after a block of a function", "(function () {}\n/ (p = import('x')) /g);"],
  ["a division after a class", "(class {}\n/ (p = import('x')) /g);"],
  ["a division after a template", "`${1}`\n/ (p = import('x')) /g;"],
  ["a division after an object", "({}\n/ (p = import('x')) /g);"],
  ["a division after an increment", "g++\n/ (p = import('x')) /g;"],
  [
    "a division after a private name",
    "class A { #of = 1; m() { this.#of\n/ (p = import('x')) /g } } new A().m();",
  ],
  ["a regular expression after a condition", "if (g) /[/]'/.test(p = import('x'));"],
  ["a class in a regular expression", "/[/]/.test(p = import('x')) /* / */;"],
  ["a class field", "class A { field = (p = import('x')); } new A();"],
  ["a static field", "class A { static field = (p = import('x')); }"],
  ["a static block", "class A { static { p = import('x'); } }"],
  ["a computed key", "({ [p = import('x')]: 1 });"],
  ["a private field", "class A { #x = (p = import('x')); } new A();"],
  ["a label", "label: p = import('x');"],
  ["an HTML comment that opens", "g <!-- '\np = import('x'); //'"],
  ["an HTML comment that closes", "\n--> '\np = import('x'); //'"],
  ["a hashbang", "#!/x\np = import('x');"],
  ["an escape in the word", "p = \\u0069mport('x');"],
  ["an escape of a code point", "p = im\\u{70}ort('x');"],
  ["a line separator", "// \u2028p = import('x');"],
  ["a paragraph separator", "// \u2029p = import('x');"],
  ["a JSON module", "p = import('x', { with: { type: 'json' } });"],
  ["a text module", "p = import('x', { with: { type: 'text' } });"],
  ["an attribute nobody knows", "p = import('x', { with: { odd: '1' } });"],
  ["attributes with a getter", "p = import('x', { get with() { throw new Error('own'); } });"],
  [
    "attributes of a proxy",
    "p = import('x', { with: new Proxy({}, { ownKeys() { throw Error('own'); } }) });",
  ],
  ["a source phase", "p = import.source('x');"],
  ["a deferred phase", "p = import.defer('x');"],
  ["the meta property", "p = import.meta;"],
  ["a tagged template", "((parts, value) => p = value)`${import('x')}`;"],
  ["a template in a template", "`${`${p = import('x')}`}`;"],
  ["a default of a parameter", "((value = p = import('x')) => {})();"],
  ["a default of a pattern", "const { value = p = import('x') } = {};"],
  ["a then-able that is asked", "p = { get then() { return (kept) => kept(import('x')); } };"],
  [
    "a species",
    "class Own extends Promise { static get [Symbol.species]() { return Own } } p = Own.resolve(import('x'));",
  ],
  [
    "a replaced then",
    "Promise.prototype.then = function () { p = this; }; import('x'); await null;",
  ],
  [
    "a replaced constructor",
    "Object.defineProperty(Promise.prototype, 'constructor', { get() { p = this; return Promise } }); import('x').catch(() => {});",
  ],
  ["an asynchronous generator", "p = (async function* () { yield import('x'); })().next();"],
  ["the return of a generator", "p = (async function* () { yield 1; })().return(import('x'));"],
  ["the throw of a generator", "p = (async function* () { yield 1; })().throw(import('x'));"],
  [
    "the close of an iterator",
    "for (const one of { [Symbol.iterator]: () => ({ next: () => ({ value: 1 }), return: () => (p = import('x'), {}) }) }) break;",
  ],
  ["a list from async", "p = Array.fromAsync([import('x')]);"],
  [
    "all of several",
    "p = Promise.allSettled([import('x')]).then(([one]) => { throw one.reason });",
  ],
  ["any of several", "p = Promise.any([import('x')]).catch((error) => { throw error.errors[0] });"],
  ["a race", "p = Promise.race([import('x')]);"],
  [
    "a cause",
    "p = import('x').catch((cause) => { throw new Error('own', { cause }) }).catch((e) => { throw e.cause });",
  ],
  [
    "a captured stack",
    "Error.prepareStackTrace = (error, sites) => sites; p = import('x').catch((e) => { throw Error.captureStackTrace(e) ?? e.stack });",
  ],
  ["a weak reference", "p = new WeakRef(import('x')).deref();"],
  ["a specifier that throws", "p = import({ toString() { throw Error('own'); } });"],
  ["a specifier that is a symbol", "p = import(Symbol.iterator);"],
  [
    "a specifier without stack",
    "const dive = () => { try { return dive() } catch { return import('x') } }; p = dive();",
  ],
  ["a module of the platform", "p = import('node:fs');"],
  ["a module of the program", "p = import('ext:core/mod.js');"],
  ["a source of its own name", "p = import('x');\n//# sourceURL=file:///x.js"],
  ["using", "{ using one = { [Symbol.dispose]() { p = import('x'); } }; }"],
  ["await using", "{ await using one = { async [Symbol.asyncDispose]() { p = import('x'); } }; }"],
  ["a declaration", "import x from 'y';"],
  ["with", "(new Function ?? 1); with ({ import: 1 }) p = import('x');"],
  ["a caller", "(function f() { p = f.caller ?? f.arguments.callee.caller ?? import('x') })();"],
  ["a date", "p = new Date({ valueOf() { p = import('x'); return 1; } }) && p;"],
  [
    "a format of Intl",
    "new Intl.NumberFormat('en').format({ valueOf() { p = import('x'); return 1; } });",
  ],
];

/** Says `own` of what is an object of its realm, or none, in the way it comes out. */
const JUDGE = `const judge = async (value) => {
  const own = (one) => Object(one) !== one || one instanceof Object ? "own" : "foreign";
  try {
    return [own(value), own(await value)];
  } catch (error) {
    return [own(value), own(error)];
  }
};`;

export const IMPORTS: readonly { readonly name: string; readonly source: string }[] = DISGUISES.map(
  ([name, statements]) => ({
    name,
    source: `async (job, cb) => { let p, a = { of: 1 }, g = 1; ${JUDGE}
try {
${statements}
} catch (error) { p = Promise.reject(error); }
cb(null, await judge(p)); }`,
  }),
);
