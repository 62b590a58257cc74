import type { IncomingMessage } from 'node:http';
import { BlockList, isIP, isIPv6 } from 'node:net';

const internal = new BlockList();
for (const [network, prefix] of [
  ['127.0.0.0', 8],
  ['10.0.0.0', 8],
  ['172.16.0.0', 12],
  ['192.168.0.0', 16],
  ['169.254.0.0', 16],
] as const)
  internal.addSubnet(network, prefix, 'ipv4');
for (const [network, prefix] of [
  ['::1', 128],
  ['fc00::', 7],
  ['fe80::', 10],
] as const)
  internal.addSubnet(network, prefix, 'ipv6');

/**
 * Returns the client's address. If the connection comes from an internal network, we use the last external address in
 * `x-forwarded-for`, because the outermost proxy of the deployment has added it. External clients can't forge it, but
 * internal clients can, so don't rely on it for authorization.
 */
export function clientAddress(request: Pick<IncomingMessage, 'socket' | 'headers'>): string {
  const peer = withoutPrefix(request.socket.remoteAddress ?? '');
  const header = request.headers['x-forwarded-for'];
  if (header === undefined || !isInternal(peer)) return peer;
  const forwarded = String(header)
    .split(',')
    .map((part) => withoutPrefix(part.trim()))
    .filter((part) => isIP(part) !== 0);
  return forwarded.findLast((address) => !isInternal(address)) ?? forwarded[0] ?? peer;
}

function isInternal(address: string): boolean {
  return isIP(address) !== 0 && internal.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
}

/** On an IPv6 socket, IPv4 addresses have the prefix `::ffff:`. */
function withoutPrefix(address: string): string {
  return address.startsWith('::ffff:') ? address.slice(7) : address;
}
