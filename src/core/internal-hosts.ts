/** Host names and addresses that only exist on this machine or in its own network. */

/** Checks whether the `hostname` of a `URL`, in which IPv6 addresses have brackets, is this machine. */
export function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname.endsWith('.localhost') || hostname === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(hostname);
}

/** The hosts from which machines and containers in a cloud get their credentials. Most of them are link-local. */
export const metadataHosts: readonly string[] = [
  '169.254.169.254',
  '169.254.170.2',
  '169.254.170.23',
  'metadata.google.internal',
  'metadata.goog',
  'instance-data',
  'instance-data.ec2.internal',
  '100.100.100.200',
  '168.63.129.16',
  '[fd00:ec2::254]',
];
