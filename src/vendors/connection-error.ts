/** Explains connection errors of vendors, based on the error code of Node or undici. */

const sentences: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was reset before the response began',
  EPIPE: 'the connection was reset before the response began',
  UND_ERR_SOCKET: 'the connection was closed before the response began',
  ETIMEDOUT: 'the connection attempt timed out',
  UND_ERR_CONNECT_TIMEOUT: 'the connection attempt timed out',
  ENOTFOUND: 'the host name does not exist',
  EAI_AGAIN: 'the DNS server did not respond',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'the network of the host cannot be reached',
};

/** Matches the error codes of OpenSSL and of Node's certificate checks. */
const certificateCodes = /CERT|SIGNED|UNABLE_TO|ALTNAME|HOSTNAME_MISMATCH/;
const tlsCodes = /^(?:EPROTO|ERR_SSL|ERR_TLS)/;

export function describeConnectionError(code: string | null): string {
  if (code === null) return 'the connection was closed before the response began';
  const sentence = sentences[code];
  if (sentence !== undefined) return sentence;
  if (certificateCodes.test(code)) return 'the TLS certificate of the host was rejected';
  return tlsCodes.test(code) ? 'the TLS handshake failed' : 'the connection failed';
}
