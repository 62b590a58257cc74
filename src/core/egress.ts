/** The proxy and the additional certificate authorities that connections to a provider need. */
export interface Egress {
  /** Connections are only shared if they have the same key. */
  readonly key: string;
  /** The proxy to which we send CONNECT, including its credentials. Null to connect directly. */
  readonly proxy: string | null;
  /** Additional CA certificates in PEM. Null to trust only the default ones. */
  readonly ca: string | null;
}
