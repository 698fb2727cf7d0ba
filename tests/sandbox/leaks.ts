// Pairs of bodies: what the first leaves behind, and how the second would find it. Each is the text of
// a function that takes the job and answers what it found. In one task of a fresh realm, `look` finds
// what `leave` has left; in the next task it must not.

/** A way in which one task could reach the next. */
export interface Leak {
  readonly name: string;
  readonly leave: string;
  readonly look: string;
}

export const LEAKS: readonly Leak[] = [
  { name: "an undeclared name", leave: "leaked = 1", look: "typeof leaked" },
  {
    name: "a property of this",
    leave: "(function () { this.leaked = 1 })()",
    look: "(function () { return this.leaked })()",
  },
  {
    name: "a symbol on this",
    leave: "(function () { this[Symbol.for('leaked')] = 1 })()",
    look: "(function () { return this[Symbol.for('leaked')] })()",
  },
  {
    name: "many properties of this",
    leave: "(function () { for (let at = 0; at < 5000; at++) this['leaked' + at] = 1 })()",
    look: "(function () { return this.leaked0 ?? this.leaked4999 })()",
  },
  {
    name: "this as a receiver",
    leave: "(function () { Reflect.set({}, 'leaked', 1, this) })()",
    look: "typeof leaked",
  },
  {
    name: "a getter on this that stays",
    leave:
      "(function () { Object.defineProperty(this, 'leaked', { get: () => 1, enumerable: false }) })()",
    look: "typeof leaked",
  },
  {
    name: "the prototype of this",
    leave: "(function () { Object.setPrototypeOf(this, { leaked: 1 }) })()",
    look: "(function () { return Object.getPrototypeOf(this).leaked })()",
  },
  {
    name: "a name of the language taken off this",
    leave: "(function () { delete this.Array; this.Array = Map })()",
    look: "(function () { return this.Array === [].constructor })()",
  },
  { name: "the global object", leave: "globalThis.leaked = 1", look: "typeof leaked" },
  { name: "a name of the language", leave: "Array = Map", look: "Array === Map" },
  { name: "a capability", leave: "vmadm = { get: 1 }", look: "typeof vmadm.get" },
  {
    name: "the prototype of objects",
    leave: "Object.prototype.leaked = 1",
    look: "({}).leaked",
  },
  {
    name: "a setter of that prototype",
    leave: "({}).toString = 1; Object.prototype.toString = () => 'leaked'",
    look: "`${{}}`",
  },
  { name: "the prototype of lists", leave: "[].__proto__.map = 1", look: "typeof [].map" },
  {
    name: "statics of regular expressions",
    leave: "/leaked/.test('leaked')",
    look: "RegExp.lastMatch === 'leaked'",
  },
  {
    name: "a method of a prototype",
    leave: "[].map.leaked = 1; Promise.prototype.then.leaked = 1; ({}).valueOf.leaked = 1",
    look: "[[].map.leaked, Promise.prototype.then.leaked, ({}).valueOf.leaked]",
  },
  {
    name: "a static of an intrinsic",
    leave: "Map.groupBy.leaked = 1",
    look: "Map.groupBy.leaked",
  },
  {
    name: "the hidden prototype of iterators",
    leave: "Object.getPrototypeOf([].values()).leaked = 1",
    look: "new Set().values().leaked ?? [].values().leaked",
  },
  {
    name: "the hidden prototype of iterator helpers",
    leave: "Object.getPrototypeOf([].values().map(String)).leaked = 1",
    look: "[].values().filter(Boolean).leaked",
  },
  {
    name: "the hidden prototype of wrapped iterators",
    leave: "Object.getPrototypeOf(Iterator.from({ next() {} })).leaked = 1",
    look: "Iterator.from({ next() {} }).leaked",
  },
  {
    name: "the hidden prototype of generators",
    leave: "Object.getPrototypeOf(async function* () {}).prototype.leaked = 1",
    look: "(async function* () {})().leaked",
  },
  {
    name: "the hidden prototype of matches",
    leave: "Object.getPrototypeOf('a'.matchAll(/a/g)).leaked = 1",
    look: "'b'.matchAll(/b/g).leaked",
  },
  {
    name: "the segments of Intl",
    leave: "Object.getPrototypeOf(new Intl.Segmenter('en').segment('a')).leaked = 1",
    look: "new Intl.Segmenter('en').segment('b').leaked",
  },
  {
    name: "the iterator of the segments of Intl",
    leave: "Object.getPrototypeOf(new Intl.Segmenter('en').segment('a')[Symbol.iterator]())" +
      ".leaked = 1",
    look: "new Intl.Segmenter('en').segment('b')[Symbol.iterator]().leaked",
  },
  {
    name: "a class of Intl",
    leave: "Intl.NumberFormat.prototype.leaked = 1; Intl.leaked = 1",
    look: "[Intl.leaked, new Intl.NumberFormat('en').leaked]",
  },
  {
    name: "the prototype of dates",
    leave: "Date.prototype.getTime = () => 1; Date.leaked = 1",
    look: "[Date.leaked, new Date(5).getTime()]",
  },
  {
    name: "the length of stacks",
    leave: "Error.stackTraceLimit = 1",
    look: "Error.stackTraceLimit",
  },
  {
    name: "the length of stacks, fixed",
    leave: "Object.defineProperty(Error, 'stackTraceLimit', { value: 1, writable: false })",
    look:
      "new Error().stack.length > 0 && Object.getOwnPropertyDescriptor(Error, 'stackTraceLimit')",
  },
  { name: "a frozen Error", leave: "Object.freeze(Error)", look: "Object.isFrozen(Error)" },
  {
    name: "the hook of stacks",
    leave: "Error.prepareStackTrace.leaked = 1; Error.captureStackTrace.leaked = 1",
    look: "[Error.prepareStackTrace.leaked, Error.captureStackTrace.leaked]",
  },
  {
    name: "the object of a template",
    leave: "(kept => { Object.getPrototypeOf(kept.raw).leaked = 1 })`a`",
    look: "(kept => kept.leaked)`a`",
  },
  {
    name: "the console",
    leave: "console.leaked = 1; console.log = null",
    look: "typeof console.log",
  },
  { name: "the callback", leave: "cb.leaked = 1", look: "cb.leaked" },
  {
    name: "the functions of timers",
    leave: "setTimeout.leaked = 1; sleep.leaked = 1",
    look: "[setTimeout.leaked, sleep.leaked]",
  },
  {
    name: "the numbers of timers",
    leave: "for (let at = 0; at < 5; at++) clearTimeout(setTimeout(() => {}, 1e6))",
    look: "setTimeout(() => {}, 0)",
  },
  { name: "the methods of the log", leave: "job.log.info = 1", look: "typeof job.log.info" },
  {
    name: "the constructor of promises",
    leave: "Promise.prototype.then = 1; Promise.leaked = 1",
    look: "[typeof Promise.prototype.then, Promise.leaked]",
  },
  { name: "the random numbers", leave: "Math.random = () => 0.5", look: "Math.random() === 0.5" },
  {
    name: "a symbol of the registry",
    leave: "Symbol.prototype.leaked = 1; Symbol.for('leaked').constructor.leaked = 1",
    look: "[Symbol.for('leaked').leaked, Symbol.leaked]",
  },
  {
    name: "a weak reference",
    leave: "WeakRef.prototype.leaked = 1; WeakMap.prototype.leaked = 1",
    look: "[new WeakRef({}).leaked, new WeakMap().leaked]",
  },
  {
    name: "the prototype of functions",
    leave: "(() => {}).constructor.prototype.call = null; Function.prototype.leaked = 1",
    look: "[typeof (() => {}).call, (() => {}).leaked]",
  },
];
