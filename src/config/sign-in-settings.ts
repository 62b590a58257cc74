/**
 * Parses the settings for signing in to the console, i.e. the public address and the identity provider (OpenID
 * Connect). The environment takes precedence over the file.
 */
import type { Config } from './config.ts';
import type { Environment } from './environment.ts';
import type { FileValues } from './file-schema.ts';
import type { VariableName } from './variables.ts';
import type { AddError } from './yaml-file.ts';

interface Source {
  readonly env: Environment;
  readonly file: Pick<FileValues, 'public_url' | 'oidc'>;
  readonly errors: string[];
  readonly addError: AddError;
}

export function parseSignInSettings({ env, file, errors, addError }: Source): Pick<Config, 'publicUrl' | 'oidc'> {
  /**
   * Reads a setting from the environment or the file. Call `report` if the value is wrong: it says where the value
   * comes from.
   */
  const read = (variable: VariableName, path: readonly string[], fromFile: string | undefined) => {
    const fromEnvironment = env[variable]?.trim() || null;
    const report = (message: string): void => {
      if (fromEnvironment !== null || fromFile === undefined) errors.push(`${variable}: ${message}`);
      else addError(path, message);
    };
    return { value: fromEnvironment ?? fromFile ?? null, report };
  };
  const publicUrl = read('GATEWAY_PUBLIC_URL', ['public_url'], file.public_url);
  if (publicUrl.value !== null && !isOrigin(publicUrl.value)) {
    publicUrl.report('must be an address like https://gateway.example.com, without a path');
  }
  const issuer = read('OIDC_ISSUER', ['oidc', 'issuer'], file.oidc?.issuer);
  const clientId = read('OIDC_CLIENT_ID', ['oidc', 'client_id'], file.oidc?.client_id);
  const clientSecret = read('OIDC_CLIENT_SECRET', ['oidc', 'client_secret'], file.oidc?.client_secret);
  const domains = read('OIDC_ALLOWED_DOMAINS', ['oidc', 'allowed_domains'], file.oidc?.allowed_domains?.join(','));
  const allowedDomains = (domains.value ?? '')
    .split(',')
    .map((domain) => domain.trim().toLowerCase())
    .filter((domain) => domain !== '');
  if (!allowedDomains.every((domain) => /^[a-z0-9-]+(?:\.[a-z0-9-]+)+$/.test(domain))) {
    domains.report('must be a comma-separated list of domains such as example.com');
  }
  const publicOrigin = publicUrl.value?.replace(/\/$/, '') ?? null;
  if (issuer.value === null) {
    for (const setting of [clientId, clientSecret, domains]) {
      if (setting.value !== null) setting.report('requires the issuer of the identity provider (OIDC_ISSUER)');
    }
    return { publicUrl: publicOrigin, oidc: null };
  }
  if (!isIssuer(issuer.value)) issuer.report('must be an https:// address without a query; http:// is only allowed on this machine');
  if (clientId.value === null) clientId.report('is required if you use an identity provider');
  if (publicOrigin === null) publicUrl.report('is required if you use an identity provider, because it redirects browsers to this address');
  return {
    publicUrl: publicOrigin,
    oidc: { issuer: issuer.value, clientId: clientId.value ?? '', clientSecret: clientSecret.value, allowedDomains },
  };
}

function isOrigin(text: string): boolean {
  return /^https?:\/\/[^/?#@\s]+\/?$/.test(text) && URL.canParse(text);
}

function isIssuer(text: string): boolean {
  if (!/^https?:\/\/[^?#@\s]+$/.test(text) || !URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  return protocol === 'https:' || ['localhost', '127.0.0.1', '[::1]'].includes(hostname);
}
