// Media as tests need them: small, and what their names say.

/** Bytes of one sector of a CD. */
const SECTOR_BYTES = 2048;

/** Puts the marks of an ISO 9660 image at their places: volume, boot record, end. */
export function markIso(bytes: Uint8Array, bootRecord = true): void {
  const descriptors: readonly (readonly [type: number, text: string])[] = [
    [1, ""],
    ...(bootRecord ? [[0, "EL TORITO SPECIFICATION"] as const] : []),
    [255, ""],
  ];
  for (const [place, [type, text]] of descriptors.entries()) {
    const sector = bytes.subarray((16 + place) * SECTOR_BYTES, (17 + place) * SECTOR_BYTES);
    sector.fill(0);
    sector[0] = type;
    sector.set(new TextEncoder().encode(`CD001\x01${text}`), 1);
  }
}

/** An ISO image of so many bytes, at least 19 sectors, filled with sevens. */
export function isoBytes(size: number, bootRecord = true): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(size).fill(7);
  markIso(bytes, bootRecord);
  return bytes;
}
