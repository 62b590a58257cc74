/** The hosts at which clouds give credentials to a machine or container. They only exist in its own network. */
const metadataHosts = ['169.254.169.254', '169.254.170.2', '169.254.170.23', 'metadata.google.internal', 'metadata.google.internal.'];

/**
 * Keeps requests to metadata services away from the proxy in `HTTPS_PROXY`, which can't reach them and must not see the
 * credentials. The clouds' libraries read these variables of the process each time, and have no other way to set it.
 */
export function exceptMetadataHosts(env: NodeJS.ProcessEnv): void {
  // Libraries differ in which of the two they prefer.
  const value = `${env.NO_PROXY ?? ''},${env.no_proxy ?? ''}`;
  const entries = value.split(/[\s,]+/).filter((entry) => entry !== '');
  if (entries.includes('*')) return;
  env.NO_PROXY = [...new Set([...entries, ...metadataHosts])].join(',');
  env.no_proxy = env.NO_PROXY;
}
