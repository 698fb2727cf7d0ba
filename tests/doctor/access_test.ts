// What the doctor finds of tokens, certificates and the audit file: each kind of damage, and what is
// repaired when that is asked for.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import {
  auditFileCheck,
  covers,
  readChain,
  tlsCheck,
  type TlsPlace,
  tokensCheck,
} from "../../src/service/doctor/access.ts";
import { diagnose, type Diagnosis, type HealthCheck } from "../../src/service/doctor/check.ts";
import { readTlsIdentity } from "../../src/http/listen/listener.ts";
import { changeTokenFile, readTokenFile } from "../../src/state_dir/token_file.ts";
import { makeCertificate, type TlsPaths } from "../http/tls_files.ts";
import { programTest } from "../support/program.ts";
import { withFolder } from "../support/until.ts";

const NOW = new Date().toISOString();
const DAY_MS = 86_400_000;

async function diagnosed(check: HealthCheck, repair = false): Promise<Diagnosis> {
  const [found] = await diagnose([check], { repair, onDiagnosis: () => {} });
  if (found === undefined) throw new Error("nothing was found");
  return found;
}

async function modeOf(path: string): Promise<number> {
  return ((await Deno.stat(path)).mode ?? 0) & 0o777;
}

Deno.test("tokens: a missing file is fine unless tokens are required; admin tokens are counted", () =>
  withFolder(async (folder) => {
    const path = join(folder, "tokens.json");
    const check = (needed: boolean) => tokensCheck({ path, needed, read: readTokenFile });
    assertEquals((await diagnosed(check(false))).outcome, "skipped");
    const missing = await diagnosed(check(true));
    assertEquals(missing.outcome, "fail");
    assertStringIncludes(missing.fix ?? "", "zonewright token create");
    const token = { name: "a", scope: "admin", sha256: "a".repeat(64), created_at: NOW } as const;
    await changeTokenFile(path, () => [token, { ...token, name: "b", scope: "read" }]);
    const { outcome, detail } = await diagnosed(check(true));
    assertEquals([outcome, detail], ["ok", "2 tokens, 1 of them admin"]);
  }));

Deno.test("tokens, audit: a link or another file in the way is reported, and no mode is changed", () =>
  withFolder(async (folder) => {
    const other = join(folder, "passwd");
    await Deno.writeTextFile(other, "");
    await Deno.chmod(other, 0o644);
    const path = join(folder, "tokens.json");
    await Deno.symlink(other, path);
    const tokens = await diagnosed(
      tokensCheck({ path, needed: false, read: readTokenFile }),
      true,
    );
    assertEquals([tokens.outcome, tokens.repaired], ["fail", false]);
    assertStringIncludes(tokens.detail, "not a regular file");
    assertEquals(await modeOf(other), 0o644);
    const audit = await diagnosed(auditFileCheck(join(other, "audit.log")), true);
    assertEquals(audit.outcome, "fail");
    assertStringIncludes(audit.detail, `${other} is missing, or not a folder`);
  }));

Deno.test("tokens: a file that others may read is reported and closed, a damaged one only reported", () =>
  withFolder(async (folder) => {
    const path = join(folder, "tokens.json");
    const check = tokensCheck({ path, needed: false, read: readTokenFile });
    await changeTokenFile(path, () => []);
    await Deno.chmod(path, 0o644);
    const open = await diagnosed(check);
    assertEquals(open.outcome, "fail");
    assertStringIncludes(open.detail, "mode 644");
    const mended = await diagnosed(check, true);
    assertEquals([mended.outcome, mended.repaired], ["skipped", true]);
    assertEquals(await modeOf(path), 0o600);
    await Deno.writeTextFile(path, '{"tokens": [');
    const damaged = await diagnosed(check, true);
    assertEquals([damaged.outcome, damaged.repaired], ["fail", false]);
    assertStringIncludes(damaged.detail, path);
    assertEquals(await Deno.readTextFile(path), '{"tokens": [');
  }));

function placeOf({ certPath, keyPath }: TlsPaths, changes: Partial<TlsPlace> = {}): TlsPlace {
  return { certPath, keyPath, hosts: [], now: inDays(0), prove: readTlsIdentity, ...changes };
}

/** A certificate that is made within this second begins with it. */
function inDays(days: number): () => string {
  return () => new Date(Date.now() + days * DAY_MS + 1000).toISOString();
}

programTest(
  "openssl",
  "tls: a certificate that ends soon is a warning; one that has ended or not begun fails",
  () =>
    withFolder(async (folder) => {
      const paths = await makeCertificate(folder, "agent", { days: 60 });
      const at = (days: number) => diagnosed(tlsCheck(placeOf(paths, { now: inDays(days) })));
      const sound = await at(0);
      assertEquals(sound.outcome, "ok", sound.detail);
      assertStringIncludes(sound.detail, "for 127.0.0.1, localhost");
      assertEquals((await at(29)).outcome, "ok");
      const soon = await at(31);
      assertEquals(soon.outcome, "warn");
      assertStringIncludes(soon.detail, "it ends in 2");
      const ended = await at(61);
      assertEquals(ended.outcome, "fail");
      assertStringIncludes(ended.detail, "it ended at");
      const early = await at(-2);
      assertEquals(early.outcome, "fail");
      assertStringIncludes(early.detail, "only");
    }),
);

programTest(
  "openssl",
  "tls: a chain is as good as the first of its certificates to end",
  () =>
    withFolder(async (folder) => {
      const long = await makeCertificate(folder, "agent", { days: 400 });
      const short = await makeCertificate(folder, "between", { days: 5 });
      const certPath = join(folder, "chain.crt");
      const both = await Promise.all([long, short].map((one) => Deno.readTextFile(one.certPath)));
      await Deno.writeTextFile(certPath, both.join("\n"));
      const found = await diagnosed(tlsCheck(placeOf({ ...long, certPath })));
      assertEquals(found.outcome, "warn");
      assertStringIncludes(found.detail, "that of CN=between");
    }),
);

programTest(
  "openssl",
  "tls: names by which callers come must be those of the certificate",
  () =>
    withFolder(async (folder) => {
      const names = "IP:192.0.2.1,IP:2001:db8::1,DNS:agent.example,DNS:*.lab.example";
      const paths = await makeCertificate(folder, "agent", { days: 60, names });
      const hosts = ["192.0.2.1", "2001:DB8:0::1", "Agent.example", "a.lab.example"];
      const sound = await diagnosed(tlsCheck(placeOf(paths, { hosts })));
      assertEquals(sound.outcome, "ok", sound.detail);
      const others = ["192.0.2.2", "lab.example", "a.b.lab.example"];
      const found = await diagnosed(tlsCheck(placeOf(paths, { hosts: [...hosts, ...others] })));
      assertEquals(found.outcome, "warn");
      assertStringIncludes(found.detail, `and not ${others.join(", ")}`);
      const bare = await makeCertificate(folder, "bare", { days: 60, names: null });
      const nameless = await diagnosed(tlsCheck(placeOf(bare, { hosts: ["bare"] })));
      assertStringIncludes(nameless.detail, "names nothing, and not bare");
    }),
);

programTest(
  "openssl",
  "tls: a key that is open, of another certificate, or no key is reported",
  () =>
    withFolder(async (folder) => {
      const paths = await makeCertificate(folder, "agent", { days: 60 });
      const other = await makeCertificate(folder, "other", { days: 60 });
      const misfit = await diagnosed(tlsCheck(placeOf({ ...paths, keyPath: other.keyPath })));
      assertEquals(misfit.outcome, "fail");
      await Deno.chmod(paths.keyPath, 0o640);
      const open = await diagnosed(tlsCheck(placeOf(paths)), true);
      assertEquals([open.outcome, open.repaired], ["fail", false]);
      assertStringIncludes(open.detail, "mode 640");
      for (const text of ["", "no certificate\n"]) {
        await Deno.writeTextFile(paths.certPath, text);
        assertEquals(
          (await diagnosed(tlsCheck(placeOf({ ...paths, ...other, certPath: paths.certPath }))))
            .outcome,
          "fail",
        );
      }
      const gone = await diagnosed(tlsCheck(placeOf({ ...other, certPath: join(folder, "none") })));
      assertEquals(gone.outcome, "fail");
      const none = await diagnosed(tlsCheck({ ...placeOf(paths), certPath: null }));
      assertEquals(none.outcome, "skipped");
    }),
);

Deno.test("tls: a star matches one label, and bytes that are not a certificate are refused", async () => {
  assertEquals(covers(["*.a.example"], "b.a.example"), true);
  assertEquals(covers(["*.a.example"], "a.example"), false);
  assertEquals(covers(["*"], "a"), false);
  const text = "-----BEGIN CERTIFICATE-----\nMAAw\n-----END CERTIFICATE-----\n";
  const refused = await readChain(text).then(() => "taken", () => "refused");
  assertEquals(refused, "refused");
});

Deno.test("audit: a file that others may read is closed; one that is not a file or cannot be created is reported", () =>
  withFolder(async (folder) => {
    const path = join(folder, "audit");
    assertEquals((await diagnosed(auditFileCheck(null))).outcome, "skipped");
    assertEquals((await diagnosed(auditFileCheck(path))).outcome, "ok");
    assertEquals(await Deno.lstat(path).then(() => true, () => false), false);
    const nowhere = await diagnosed(auditFileCheck(join(folder, "none", "audit")));
    assertEquals([nowhere.outcome, nowhere.fix], ["fail", `mkdir -p ${join(folder, "none")}`]);
    await Deno.writeTextFile(path, "{}\n", { mode: 0o644 });
    await Deno.chmod(path, 0o644);
    assertEquals((await diagnosed(auditFileCheck(path))).outcome, "fail");
    const mended = await diagnosed(auditFileCheck(path), true);
    assertEquals([mended.outcome, mended.repaired, await modeOf(path)], ["ok", true, 0o600]);
    await Deno.symlink(path, join(folder, "link"));
    for (const other of [join(folder, "link"), folder]) {
      assertEquals((await diagnosed(auditFileCheck(other))).outcome, "fail");
    }
  }));
