// Passwords of VNC consoles. Requests, jobs and logs say only whether a console has one.

import type { JsonObject } from "../../domain/json.ts";

/** VNC authentication uses no more characters, and vmadm refuses more. */
const PASSWORD_CHARS = 8;
/** Letters and digits that cannot be mistaken for each other. */
const ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789";

/** Generates a password; an argument, so that a test can choose it. */
export type NewPassword = () => string;

/**
 * A random password. It is generated on the way to vmadm, so that no request, job or log ever contains one; a caller that
 * may see it reads it back from vmadm.
 * @see RFC 6143, 7.2.2
 */
export const randomPassword: NewPassword = () => {
  let password = "";
  // Bytes beyond the last multiple of the alphabet's length would favor its first letters.
  const limit = 256 - 256 % ALPHABET.length;
  while (password.length < PASSWORD_CHARS) {
    for (const byte of crypto.getRandomValues(new Uint8Array(PASSWORD_CHARS * 2))) {
      if (byte < limit && password.length < PASSWORD_CHARS) {
        password += ALPHABET[byte % ALPHABET.length];
      }
    }
  }
  return password;
};

/**
 * The payload for vmadm: `vnc_password` true becomes a password, false none. A string, which only the agent's
 * own code can set, is kept.
 */
export function withPassword(payload: JsonObject, newPassword: NewPassword): JsonObject {
  const { vnc_password, ...rest } = payload;
  if (vnc_password === true) return { ...rest, vnc_password: newPassword() };
  return vnc_password === undefined || vnc_password === false ? rest : payload;
}
