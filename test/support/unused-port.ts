/** Finds loopback ports that nothing listens on. */
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Returns a port of 127.0.0.1 that refuses connections. It's below the ports that systems assign (from 32,768), so no
 * server or connection of another test can get it while it's unused.
 */
export async function unusedPort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 32_768);
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}

/** Returns a URL that refuses connections. */
export async function unusedUrl(): Promise<string> {
  return `http://127.0.0.1:${await unusedPort()}`;
}
