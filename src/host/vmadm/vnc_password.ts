// Passwords of consoles. They are chosen here, on the way to vmadm, so that no request, no job and no
// log ever holds one; whoever may see it reads it back from vmadm.

import type { JsonObject } from "../../domain/json.ts";

/** All that VNC's authentication looks at; vmadm refuses more. */
const PASSWORD_CHARS = 8;
/** Letters and digits that cannot be taken for each other when somebody types them. */
const ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789";

/** Makes a password; handed in as an argument so that a test decides it. */
export type NewPassword = () => string;

/** A random password. @see RFC 6143, 7.2.2 */
export const randomPassword: NewPassword = () => {
  let password = "";
  // Bytes beyond the last whole round of the alphabet would make its first letters likelier.
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
 * A payload as vmadm takes it: `vnc_password` true becomes a password, false none. A text, which only
 * the agent's own code can have put there, is left as it is.
 */
export function withPassword(payload: JsonObject, newPassword: NewPassword): JsonObject {
  const { vnc_password, ...rest } = payload;
  if (vnc_password === true) return { ...rest, vnc_password: newPassword() };
  return vnc_password === undefined || vnc_password === false ? rest : payload;
}
