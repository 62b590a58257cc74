import { metadataHosts } from '../../core/internal-hosts.ts';

/**
 * Adds the clouds' metadata hosts to NO_PROXY. A proxy can't reach them, and it shouldn't see the credentials. The
 * clouds' libraries read this environment variable each time, and have no other way to configure it.
 */
export function exceptMetadataHosts(env: NodeJS.ProcessEnv): void {
  // Set both spellings of the variable, because libraries disagree about which one takes precedence.
  const value = `${env.NO_PROXY ?? ''},${env.no_proxy ?? ''}`;
  const entries = value.split(/[\s,]+/).filter((entry) => entry !== '');
  if (entries.includes('*')) return;
  env.NO_PROXY = [...new Set([...entries, ...metadataHosts, 'metadata.google.internal.'])].join(',');
  env.no_proxy = env.NO_PROXY;
}
