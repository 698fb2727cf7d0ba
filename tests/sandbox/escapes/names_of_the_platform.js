// deno-lint-ignore-file
// ends: success []
((job, cb) => {
  const names = "Deno process require module exports Buffer fetch Request Response Headers URL " +
    "WebSocket EventSource XMLHttpRequest Worker SharedWorker MessageChannel MessagePort " +
    "BroadcastChannel WebAssembly SharedArrayBuffer Atomics FinalizationRegistry eval " +
    "queueMicrotask structuredClone setInterval setImmediate caches localStorage sessionStorage " +
    "indexedDB navigator location performance crypto window self global document alert prompt " +
    "confirm close Blob File FileReader ReadableStream TextDecoder TextEncoder Event " +
    "EventTarget AbortController addEventListener dispatchEvent reportError " +
    "importScripts bootstrap __bootstrap";
  cb(null, names.split(" ").filter((name) => name in globalThis));
});
