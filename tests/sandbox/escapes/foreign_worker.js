// deno-lint-ignore-file
// ends: success "closed"
// A worker of the platform: it has no more than its guest, and may cost the guest its memory.
((job, cb) => {
  if (typeof foreign === "undefined") return cb(null, "closed");
  const { Worker } = foreign.outside ?? {};
  if (Worker === undefined) return cb(null, "none");
  const { secret = "/etc/passwd" } = job.params ?? {};
  const code = `postMessage(Deno.readTextFileSync(${JSON.stringify(secret)}))`;
  const worker = new Worker(`data:text/javascript,${encodeURIComponent(code)}`, { type: "module" });
  worker.onmessage = ({ data }) => cb(null, data);
  worker.onerror = (event) => {
    event.preventDefault();
    cb(null, "refused");
  };
  setTimeout(() => cb(null, "late"), 1000);
});
