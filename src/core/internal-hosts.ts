/**
 * Returns true if this host is the machine itself. Pass the `hostname` of a `URL`, where IPv6 addresses have brackets.
 */
export function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname.endsWith('.localhost') || hostname === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(hostname);
}

/** Hosts from which machines and containers get their cloud credentials. Most of them have link-local addresses. */
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
