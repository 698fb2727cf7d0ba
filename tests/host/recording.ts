// Texts as vmadm prints them, kept in files so that their line breaks and order are what they are.

/** The uuid that the recorded texts are about. */
export const RECORDED_UUID = "54f1cc77-68f1-42ab-acac-5c4f64f5d6e0";

/** A recorded text by its file name. */
export function recording(name: string): string {
  return Deno.readTextFileSync(new URL(`./recorded/${name}`, import.meta.url));
}
