import { metadataHosts } from '../../core/internal-hosts.ts';

/**
 * Adds the clouds' metadata hosts to NO_PROXY. A proxy can't reach them, and shouldn't see the credentials anyway.
 * There's no other way to tell the clouds' libraries, which read this variable each time.
 */
export function exceptMetadataHosts(env: NodeJS.ProcessEnv): void {
  // Libraries don't agree on which spelling takes precedence, so set both.
  const value = `${env.NO_PROXY ?? ''},${env.no_proxy ?? ''}`;
  const entries = value.split(/[\s,]+/).filter((entry) => entry !== '');
  if (entries.includes('*')) return;
  env.NO_PROXY = [...new Set([...entries, ...metadataHosts, 'metadata.google.internal.'])].join(',');
  env.no_proxy = env.NO_PROXY;
}
