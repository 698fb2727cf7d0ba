// Every property that the manual page vmadm(8) names, with what becomes of it here. A row says which
// brands take it, at create and at update, with a value that is taken and some that are not; or that it
// is refused. Properties of a disk and of a nic begin with `disks.*.` and `nics.*.`, as in the manual.

import type { JsonValue } from "../../src/domain/json.ts";

type Brands = "kvm" | "bhyve" | "both";

export interface Taken {
  readonly brands: Brands;
  /** Whether `vmadm update` takes it as well. */
  readonly update: boolean;
  readonly good: readonly JsonValue[];
  readonly bad: readonly JsonValue[];
}

const UUID = "aaaaaaaa-0000-4000-8000-000000000001";
const NO_FLAGS = [1, "true", null];
const NO_SIZES = [0, -1, 1.5, "0", "-1", "1.5", " 7", "0x7", "", 2 ** 53, null, [], {}];

function size(brands: Brands, good: JsonValue, more: readonly JsonValue[] = []): Taken {
  return { brands, update: true, good: [good], bad: [...NO_SIZES, ...more] };
}

function setting(good: readonly JsonValue[], bad: readonly JsonValue[]): Taken {
  return { brands: "both", update: true, good, bad };
}

function atCreate(good: readonly JsonValue[], bad: readonly JsonValue[]): Taken {
  return { brands: "both", update: false, good, bad };
}

function of(brand: "kvm" | "bhyve", taken: Taken): Taken {
  return { ...taken, brands: brand };
}

const CIDS = ["0x0a", `0x${"ab".repeat(254)}`];

/** Null for what is refused, at create and at update. */
export const MANUAL_PROPERTIES: Readonly<Record<string, Taken | null>> = {
  alias: setting(["web1", "-x", "ä", "a b:c", "😀".repeat(189)], [
    ...["", "a\nb", "\0", "\u2028", "\ud800", "x".repeat(190)],
    7,
  ]),
  archive_on_delete: null,
  autoboot: atCreate([false], [true, 0, "false"]),
  billing_id: setting([UUID], ["", UUID.toUpperCase(), 7]),
  bhyve_extra_opts: null,
  boot: of(
    "kvm",
    setting(["order=cd", "order=d", "order=ncd,once=d", "cd", "n", "once=d"], [
      ...["order=", "order=a", "order=cc", "order=cdnc", "order=cd,once=cd", "order=cd -s"],
      ...["", "cc", "cdnc", "a", "cd,once=d", "once=", "once=cd", "order=cd,menu=on"],
      7,
    ]),
  ),
  boot_timestamp: null,
  bootrom: of("bhyve", setting(["bios", "uefi"], ["/uefi.bin", "", 1])),
  brand: atCreate([], ["joyent", "lx", "KVM", null, 7]),
  cpu_cap: size("both", 150, [6401]),
  cpu_shares: size("both", 65_535, [65_536]),
  cpu_type: of("kvm", setting(["qemu64", "host"], ["core2duo", "host,+x", 7])),
  create_timestamp: null,
  server_uuid: null,
  customer_metadata: atCreate([{ a: "b", n: 1, t: true }, {}], [[], { a: {} }, { "": 1 }, "x"]),
  datasets: null,
  delegate_dataset: null,
  disks: atCreate([[]], [{}, [7], "x"]),
  "disks.*.block_size": atCreate([512, 131_072], [256, 1000, 262_144, "1000"]),
  "disks.*.boot": atCreate([true, false], NO_FLAGS),
  "disks.*.compression": atCreate(["off", "gzip-9"], ["zstd", "gzip-10", true]),
  "disks.*.guest_block_size": of(
    "bhyve",
    atCreate(["512", "512/4096"], ["500", "512/", "512/4096/512", 512]),
  ),
  "disks.*.nocreate": null,
  "disks.*.image_name": null,
  "disks.*.image_size": null,
  "disks.*.image_uuid": null,
  "disks.*.notrim": of("bhyve", atCreate([true], NO_FLAGS)),
  "disks.*.pci_slot": of(
    "bhyve",
    atCreate(["0:4:0", "5:1", "3", "255:31:7"], [
      ...["0:0:0", "6", "0:30:1", "0:31:0", "0:4:8", "0:32:0", "256:1:1", "a", ""],
      4,
    ]),
  ),
  "disks.*.refreservation": atCreate([0, 1024, "512"], [-1, 1025, 1.5, "1025"]),
  "disks.*.size": atCreate([1, 4_194_304], [...NO_SIZES, 4_194_305]),
  "disks.*.media": atCreate(["disk"], ["cdrom", "floppy", 7]),
  "disks.*.model": atCreate(["virtio"], ["sata", "VIRTIO", "", null]),
  "disks.*.zpool": null,
  "disks.*.uuid": of("bhyve", atCreate([UUID], ["", UUID.toUpperCase(), 7])),
  "disks.*.path": null,
  disk_driver: null,
  do_not_inventory: setting([true, false], NO_FLAGS),
  dns_domain: null,
  filesystems: null,
  firewall_enabled: setting([true, false], NO_FLAGS),
  flexible_disk_size: null,
  free_space: null,
  fs_allowed: null,
  hostname: setting(["web1", "web1.example.com", "a_b"], [
    ...["-a", "a-", "a..b", "a;b", "a b", "", "x".repeat(64), "a.".repeat(127)],
    7,
  ]),
  hvm: null,
  image_uuid: null,
  internal_metadata: null,
  internal_metadata_namespaces: null,
  indestructible_delegated: null,
  indestructible_zoneroot: null,
  kernel_version: null,
  limit_priv: null,
  maintain_resolvers: null,
  max_locked_memory: size("both", 1024, [266_241]),
  max_lwps: size("both", 2000, [100_001]),
  max_physical_memory: size("both", 2048, [266_241]),
  max_swap: size("both", 4096, [255, 266_241]),
  mdata_exec_timeout: null,
  nics: atCreate([[]], [{}, [7], "x"]),
  "nics.*.allow_dhcp_spoofing": null,
  "nics.*.allow_ip_spoofing": null,
  "nics.*.allow_mac_spoofing": null,
  "nics.*.allow_restricted_traffic": null,
  "nics.*.allow_unfiltered_promisc": null,
  "nics.*.blocked_outgoing_ports": atCreate([[], [25, 65_535], ["25"]], [[0], [65_536], ["a"], 25]),
  "nics.*.allowed_ips": null,
  "nics.*.allowed_dhcp_cids": of(
    "kvm",
    atCreate([CIDS], [["0x"], ["0a"], ["0xabc"], Array(21).fill("0x0a"), Array(3).fill(CIDS[1])]),
  ),
  "nics.*.dhcp_server": null,
  "nics.*.gateway": atCreate(["192.0.2.1"], ["2001:db8::1", "gw", "192.0.2.01", 7]),
  "nics.*.gateways": atCreate([["192.0.2.1"]], ["192.0.2.1", [7], Array(21).fill("192.0.2.1")]),
  "nics.*.interface": null,
  "nics.*.ip": atCreate(["dhcp", "addrconf"], ["DHCP", "192.0.2", "192.0.2.256", "2001:db8::7", 7]),
  "nics.*.ips": atCreate([["192.0.2.7/24", "2001:db8::7/64", "addrconf"]], [
    ["192.0.2.7"],
    ["192.0.2.7/33"],
    ["192.0.2.7/24", "192.0.2.7/24"],
    ["192.0.2.7/24", "192.0.2.7/024"],
    ["2001:db8::A/64", "2001:DB8::a/64"],
    ["dhcp", "dhcp"],
    "dhcp",
  ]),
  "nics.*.mac": atCreate(["02:08:20:aa:bb:cc", "2:8:20:a:b:c"], [
    ...["01:00:5e:00:00:01", "1:0:5e:0:0:1", "0:0:0:0:0:0", "2:8:20:a:b", ""],
    7,
  ]),
  "nics.*.model": atCreate(["virtio", "e1000", "rtl8139"], ["vmxnet3", "", null]),
  "nics.*.mtu": atCreate([1500, 576, 9000, "1500"], [575, 9001, "575"]),
  "nics.*.netmask": atCreate([], ["255.0.255.0", "0.0.0.0", "/24", 24]),
  "nics.*.network_uuid": atCreate([UUID], ["", UUID.toUpperCase(), 7]),
  "nics.*.nic_tag": atCreate(["external", "sdc_overlay/12"], ["a b", "", "x".repeat(65), 7]),
  "nics.*.primary": atCreate([1, 0, true, false], ["true", 2, null]),
  "nics.*.vlan_id": atCreate([0, 4095, "1"], [-1, 4096, "4096", ""]),
  "nics.*.vrrp_primary_ip": null,
  "nics.*.vrrp_vrid": null,
  nic_driver: null,
  nowait: null,
  owner_uuid: setting([UUID], ["", UUID.toUpperCase(), 7]),
  package_name: null,
  package_version: null,
  pid: null,
  qemu_opts: null,
  qemu_extra_opts: null,
  quota: size("both", 20, [1025]),
  ram: size("both", 512, [262_145]),
  resolvers: setting([["192.0.2.53", "2001:db8::53"], []], ["192.0.2.53", ["x"], Array(9).fill(7)]),
  routes: atCreate([{ "192.0.2.0/24": "198.51.100.1" }], [
    { "192.0.2.0/24": "nics[0]" },
    [],
    { "2001:db8::/64": "198.51.100.1" },
    { "192.0.2.0/24": "nics[32]" },
    { "192.0.2.0/24": "macs[02:08:20:aa:bb:cc]" },
    { "192.0.2.0/33": "198.51.100.1" },
  ]),
  snapshots: null,
  spice_opts: null,
  spice_password: null,
  spice_port: null,
  state: null,
  tags: atCreate([{ role: "web", n: 1, t: true }], [[], { a: [] }, { zonewright_job: UUID }]),
  tmpfs: null,
  transition_expire: null,
  transition_to: null,
  type: null,
  uuid: null,
  vcpus: size("both", 2, [65]),
  vga: of("kvm", setting(["cirrus", "std", "vmware", "qxl", "xenfb"], ["virtio", "", 7])),
  virtio_txburst: size("kvm", 128, [65_536]),
  virtio_txtimer: size("kvm", 200_000, [1_000_000_001]),
  // true or false here, and never a text.
  vnc_password: atCreate([true, false], ["secret", "", 1, null]),
  vnc_port: null,
  zfs_data_compression: null,
  zfs_data_recsize: null,
  zfs_filesystem_limit: setting([0, 1_000_000], [-1, 1.5, 1_000_001, "none", null]),
  zfs_io_priority: setting([0, 1024], [-1, 1025, "1025"]),
  zfs_root_compression: setting(["off", "lz4", "gzip-1"], ["zstd", "gzip-0", true]),
  zfs_root_recsize: setting([512, 131_072], [256, 1000, 262_144, "1000"]),
  zfs_snapshot_limit: setting([0, 1_000_000], [-1, 1.5, 1_000_001, "none", null]),
  zlog_max_size: null,
  zone_state: null,
  zonepath: null,
  zonename: null,
  zonedid: null,
  zoneid: null,
  zpool: null,
};
