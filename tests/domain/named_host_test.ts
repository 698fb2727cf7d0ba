import { assertEquals } from "@std/assert";
import { leadsToNamed } from "../../src/domain/ip_address.ts";

Deno.test("leadsToNamed() treats the default port as no port, in name and URL", () => {
  const cases: [string, string, boolean][] = [
    ["https://hooks.example.org/a", "hooks.example.org", true],
    ["https://hooks.example.org:443/a", "hooks.example.org", true],
    ["https://hooks.example.org/a", "hooks.example.org:443", true],
    ["http://hooks.example.org/a", "hooks.example.org:80", true],
    ["http://hooks.example.org/a", "hooks.example.org:443", false],
    ["https://hooks.example.org:8443/a", "hooks.example.org", false],
    ["https://hooks.example.org:8443/a", "hooks.example.org:8443", true],
    ["https://hooks.example.org/a", "example.org", false],
    ["http://[::1]:9000/", "[::1]:9000", true],
    ["http://[::1]/", "[::1]:80", true],
  ];
  for (const [address, name, leads] of cases) {
    assertEquals(leadsToNamed(new URL(address), [name]), leads, `${address} by ${name}`);
  }
  assertEquals(leadsToNamed(new URL("https://hooks.example.org/"), []), false);
});
