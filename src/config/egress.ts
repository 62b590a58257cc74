/** Decides which proxy we use to connect to a provider, and which certificate authorities we trust. */
import { createHash, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { BlockList, isIP } from 'node:net';
import type { Egress } from '../core/egress.ts';
import { errorMessage } from '../core/error-messages.ts';
import { isLoopback } from '../core/internal-hosts.ts';
import type { Environment } from './environment.ts';
import type { ProviderValues } from './file-schema.ts';
import type { AddError } from './yaml-file.ts';

/** Returns the proxy for an address, or null to connect directly. */
export type FindProxy = (address: URL) => string | null;

export const noProxy: FindProxy = () => null;

/**
 * Reads `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, in upper or lower case, with the same rules as curl and Go. We
 * never use a proxy for addresses on this machine. Adds invalid values to `errors`.
 */
export function readProxies(env: Environment, errors: string[]): FindProxy {
  const read = (name: string): string | null => env[name]?.trim() || env[name.toLowerCase()]?.trim() || null;
  const readAddress = (name: string): string | null => {
    const text = read(name);
    if (text === null) return null;
    const address = parseProxyAddress(text);
    if (address === null) errors.push(`${name}: must be an address such as http://proxy.example.com:3128`);
    return address;
  };
  const proxies: Readonly<Record<string, string | null>> = { 'https:': readAddress('HTTPS_PROXY'), 'http:': readAddress('HTTP_PROXY') };
  const isExcepted = parseExceptions(read('NO_PROXY') ?? '', errors);
  return (address) => (isLoopback(address.hostname) || isExcepted(address) ? null : (proxies[address.protocol] ?? null));
}

/** Returns the URL of a proxy, or null if the text isn't an address. Like curl, assumes http if there is no scheme. */
function parseProxyAddress(text: string): string | null {
  const address = text.includes('://') ? text : `http://${text}`;
  if (!URL.canParse(address)) return null;
  const { protocol, hostname, username, password } = new URL(address);
  return /^https?:$/.test(protocol) && hostname !== '' && canDecode(username) && canDecode(password) ? address : null;
}

function canDecode(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * Parses the hosts that don't use a proxy. `example.com` and `.example.com` include subdomains, a port limits an entry
 * to that port, and addresses can have a prefix length. Adds invalid networks to `errors`.
 */
function parseExceptions(text: string, errors: string[]): (address: URL) => boolean {
  const entries = text.split(/[\s,]+/).filter((entry) => entry !== '');
  const networks = new BlockList();
  const names: { readonly domain: string; readonly port: string | undefined }[] = [];
  for (const entry of entries) {
    const [, network = '', prefix = ''] = /^(.*)\/(.*)$/.exec(entry) ?? [];
    const [, hostOfEntry = entry, port] = isIP(entry) > 0 ? [] : (/^(.*):(\d+)$/.exec(entry) ?? []);
    const address = withoutBrackets(network || hostOfEntry);
    const version = isIP(address);
    const family = version === 6 ? 'ipv6' : 'ipv4';
    if (version > 0 && network !== '') {
      const isLength = /^\d{1,3}$/.test(prefix) && Number(prefix) <= (version === 6 ? 128 : 32);
      if (isLength) networks.addSubnet(address, Number(prefix), family);
      else errors.push(`NO_PROXY: ${entry} is not a network such as 10.0.0.0/8`);
    } else if (version > 0 && port === undefined) networks.addAddress(address, family);
    else names.push({ domain: version === 6 ? shortenAddress(address) : address.toLowerCase().replace(/^\*?\./, ''), port });
  }
  return ({ hostname, port, protocol }) => {
    const host = withoutBrackets(hostname);
    if (entries.includes('*')) return true;
    if (isIP(host) > 0 && networks.check(host, isIP(host) === 6 ? 'ipv6' : 'ipv4')) return true;
    const ownPort = port || (protocol === 'https:' ? '443' : '80');
    return names.some((name) => (name.port ?? ownPort) === ownPort && (host === name.domain || host.endsWith(`.${name.domain}`)));
  };
}

function withoutBrackets(host: string): string {
  return host.replace(/^\[|\]$/g, '');
}

function shortenAddress(address: string): string {
  return withoutBrackets(new URL(`http://[${address}]`).hostname);
}

/** Returns the proxy and certificate authorities of the provider, or null if it needs neither. */
export function buildEgress(
  { proxy: own, ca_file: file }: ProviderValues,
  baseUrl: string,
  findProxy: FindProxy,
  addError: AddError,
): Egress | null {
  const ownProxy = own === undefined || own === 'none' ? null : parseProxyAddress(own);
  if (own !== undefined && own !== 'none' && ownProxy === null)
    addError(['proxy'], 'must be an address such as http://proxy.example.com:3128, or none');
  const ca = file === undefined ? null : readCertificates(file, addError);
  const proxy = own === undefined && URL.canParse(baseUrl) ? findProxy(new URL(baseUrl)) : ownProxy;
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
    addError(['ca_file'], `cannot use ${file}: ${errorMessage(error)}`);
    return null;
  }
}
