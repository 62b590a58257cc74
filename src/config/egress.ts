/** Decides which proxy and which certificate authorities the connections to a provider use. */
import { createHash, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { BlockList, isIP } from 'node:net';
import type { Egress } from '../core/egress.ts';
import { errorMessage } from '../core/error-messages.ts';
import type { Environment } from './environment.ts';
import type { ProviderValues } from './file-schema.ts';
import type { AddError } from './yaml-file.ts';

/** Returns the proxy for an address, or null to connect directly. */
export type FindProxy = (address: URL) => string | null;

export const noProxy: FindProxy = () => null;

/**
 * Reads `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, in either case, with the meaning that they have for curl and Go.
 * Addresses of the machine itself are never proxied. Adds invalid values to `errors`.
 */
export function readProxies(env: Environment, errors: string[]): FindProxy {
  const read = (name: string): string | null => env[name]?.trim() || env[name.toLowerCase()]?.trim() || null;
  const readAddress = (name: string): string | null => {
    const text = read(name);
    if (text === null || isProxyAddress(text)) return text;
    errors.push(`${name}: must be an address such as http://proxy.example.com:3128`);
    return null;
  };
  const proxies: Readonly<Record<string, string | null>> = { 'https:': readAddress('HTTPS_PROXY'), 'http:': readAddress('HTTP_PROXY') };
  const isExcepted = parseExceptions(read('NO_PROXY') ?? '');
  return (address) => (isLoopback(address.hostname) || isExcepted(address) ? null : (proxies[address.protocol] ?? null));
}

function isProxyAddress(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol) && new URL(text).hostname !== '';
}

function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname.endsWith('.localhost') || hostname === '[::1]' || /^127\./.test(hostname);
}

/**
 * Parses the hosts that aren't proxied. `example.com` and `.example.com` include all hosts below it, a port restricts
 * an entry to that port, and addresses may have a prefix length.
 */
function parseExceptions(text: string): (address: URL) => boolean {
  const entries = text.split(/[\s,]+/).filter((entry) => entry !== '');
  const networks = new BlockList();
  for (const entry of entries) {
    const [network = '', prefix] = entry.split('/');
    const family = isIP(network) === 6 ? 'ipv6' : 'ipv4';
    const length = Number(prefix);
    if (isIP(network) > 0 && prefix !== undefined && length <= (family === 'ipv6' ? 128 : 32)) networks.addSubnet(network, length, family);
  }
  return ({ hostname, port, protocol }) => {
    const host = hostname.replace(/^\[|\]$/g, '');
    if (isIP(host) > 0 && networks.check(host, isIP(host) === 6 ? 'ipv6' : 'ipv4')) return true;
    const ownPort = port || (protocol === 'https:' ? '443' : '80');
    return entries.some((entry) => {
      if (entry === '*') return true;
      const [, name = entry, entryPort] = /^(.*[^:]):(\d+)$/.exec(entry) ?? [];
      const domain = name.toLowerCase().replace(/^\*?\.|^\[|\]$/g, '');
      return (entryPort === undefined || entryPort === ownPort) && (host === domain || host.endsWith(`.${domain}`));
    });
  };
}

/** Returns null if a provider's connections are the usual ones. */
export function buildEgress(
  { proxy: own, ca_file: file }: ProviderValues,
  baseUrl: string,
  findProxy: FindProxy,
  addError: AddError,
): Egress | null {
  if (own !== undefined && own !== 'none' && !isProxyAddress(own))
    addError(['proxy'], 'must be an address such as http://proxy.example.com:3128, or none');
  const ca = file === undefined ? null : readCertificates(file, addError);
  const fromEnvironment = own === undefined && URL.canParse(baseUrl) ? findProxy(new URL(baseUrl)) : null;
  const proxy = own === undefined || own === 'none' ? fromEnvironment : own;
  return proxy === null && ca === null ? null : { key: createHash('sha256').update(`${proxy} ${ca}`).digest('hex'), proxy, ca };
}

function readCertificates(file: string, addError: AddError): string | null {
  try {
    const text = readFileSync(file, 'utf8');
    const certificates = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
    if (certificates.length === 0) throw new Error('it contains no certificate in PEM format');
    for (const certificate of certificates) new X509Certificate(certificate);
    return text;
  } catch (error) {
    addError(['ca_file'], `${file} can't be used: ${errorMessage(error)}`);
    return null;
  }
}
