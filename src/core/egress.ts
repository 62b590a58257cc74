/** How connections to a provider leave the network, if it isn't the usual way. */
export interface Egress {
  /** Differs for any two ways, so that they don't share connections. */
  readonly key: string;
  /** The proxy to which we send CONNECT, including its credentials. Null to connect directly. */
  readonly proxy: string | null;
  /** Further certificates of authorities in PEM. Null if the usual ones are enough. */
  readonly ca: string | null;
}
