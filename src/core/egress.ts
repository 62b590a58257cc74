export interface Egress {
  /** Identifies the proxy and CA certificates. Only providers with the same key share connections. */
  readonly key: string;
  /** The URL of an HTTP proxy that supports CONNECT, including its credentials. Null to connect directly. */
  readonly proxy: string | null;
  /** Additional CA certificates in PEM. Null to trust only the default ones. */
  readonly ca: string | null;
}
