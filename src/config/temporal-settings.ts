/** Reads the connection settings for Temporal, including the contents of its TLS files. */
import { readFileSync } from 'node:fs';
import { errorMessage } from '../core/error-messages.ts';
import { ConfigError, type TemporalConfig, type TemporalTls } from './config.ts';

/** Throws a ConfigError that lists all unreadable files. */
export function readTemporalConnection(config: TemporalConfig) {
  const { mode, address, namespace, createNamespace, apiKey, tls, workerBuildId } = config;
  return {
    mode,
    address,
    namespace: namespace ?? 'default',
    createNamespace,
    ...(apiKey !== null && { apiKey }),
    ...(workerBuildId !== null && { buildId: workerBuildId }),
    ...(tls !== null && { tls: readTls(tls) }),
  };
}

/** Returns the contents of the TLS files, or true if the system's CA certificates are all that's needed. */
function readTls({ serverName, caFile, certificateFile, keyFile }: TemporalTls) {
  const errors: string[] = [];
  const read = (file: string): Buffer => {
    try {
      return readFileSync(file);
    } catch (error) {
      errors.push(`${file}: cannot be read: ${errorMessage(error)}`);
      return Buffer.alloc(0);
    }
  };
  const files = {
    ...(serverName !== null && { serverNameOverride: serverName }),
    ...(caFile !== null && { serverRootCACertificate: read(caFile) }),
    ...(certificateFile !== null && keyFile !== null && { clientCertPair: { crt: read(certificateFile), key: read(keyFile) } }),
  };
  if (errors.length > 0) throw new ConfigError(errors);
  return Object.keys(files).length === 0 ? true : files;
}
