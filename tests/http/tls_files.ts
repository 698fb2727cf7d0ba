// Certificates for tests, made by openssl: each signed by itself, for this host.

/** Where a certificate and its key are. */
export interface TlsPaths {
  readonly certPath: string;
  readonly keyPath: string;
}

/** What a certificate is good for; two days and this host unless given. */
export interface Wishes {
  readonly days?: number;
  /** As openssl writes them; null for none. */
  readonly names?: string | null;
}

/** Makes a certificate, by default for 127.0.0.1 and localhost. */
export async function makeCertificate(
  folder: string,
  name: string,
  { days = 2, names = "IP:127.0.0.1,DNS:localhost" }: Wishes = {},
): Promise<TlsPaths> {
  const certPath = `${folder}/${name}.crt`;
  const keyPath = `${folder}/${name}.key`;
  const { success, stderr } = await new Deno.Command("openssl", {
    args: [
      ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"],
      ...["-days", `${days}`, "-subj", `/CN=${name}`, "-keyout", keyPath, "-out", certPath],
      ...(names === null ? [] : ["-addext", `subjectAltName=${names}`]),
      ...["-addext", "basicConstraints=critical,CA:FALSE"],
    ],
    stdout: "null",
  }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  await Deno.chmod(keyPath, 0o600);
  return { certPath, keyPath };
}
