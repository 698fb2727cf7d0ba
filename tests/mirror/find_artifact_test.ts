import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { withMirror } from "./test_mirror.ts";

Deno.test("findArtifact() takes alias before release, newest build, and the default variant", async () => {
  await withMirror(async ({ mirror }) => {
    await mirror.sync();
    const name = async (ref: object) =>
      (await mirror.findArtifact({ distro: "aurora", release: "latest", ...ref })).name;
    assertEquals(await name({}), "aurora-24.2-20261015.1-server-x86_64.qcow2");
    assertEquals(
      await name({ release: "24.2", build: "20260901" }),
      "aurora-24.2-20260901-server-x86_64.qcow2",
    );
    assertEquals(await name({ arch: "aarch64" }), "aurora-24.2-20261015.1-server-aarch64.qcow2");
    assertEquals(await name({ variant: "install" }), "aurora-24.2-20261015.1-install-x86_64.iso");
    const archived = { release: "24.0", build: "20250101" };
    assertEquals(await name(archived), "aurora-24.0-20250101-server-x86_64.raw");
    assertEquals(
      await name({ distro: "basalt", release: "dev" }),
      "basalt-9-next-v9_2026-10-02-22-45-x86_64.qcow2",
    );
  });
});

Deno.test("findArtifact() answers an absent or ambiguous reference with the choices", async () => {
  await withMirror(async ({ mirror }) => {
    await mirror.sync();
    const cases: [object, string, string][] = [
      [{ distro: "x" }, "not_found", 'distro "x": the choices are aurora, basalt, cinder-os'],
      [{ release: "dev" }, "not_found", "the choices are latest, 24.2, lts, 24.0"],
      [{ build: "1" }, "not_found", "the choices are 20261015.1, 20260901"],
      [{ variant: "big" }, "not_found", "server/x86_64/qcow2, server/aarch64/qcow2"],
      [{ format: "vmdk" }, "not_found", "default variant, x86_64, vmdk"],
      [{ release: "lts" }, "invalid_argument", "server/x86_64/raw, server/x86_64/qcow2"],
    ];
    for (const [ref, code, words] of cases) {
      const wanted = { distro: "aurora", release: "latest", ...ref };
      const error = await assertRejects(() => mirror.findArtifact(wanted), AgentError);
      assertEquals(error.code, code);
      assertStringIncludes(error.message, words);
    }
  });
});
