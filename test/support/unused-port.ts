/** Finds ports on loopback addresses that nothing listens on. */
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * A port of 127.0.0.1 that refuses connections. It is below the ports that systems assign (from 32,768), so that no
 * server or connection of another test gets it while it is unused.
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

/** An address at such a port. */
export async function unusedUrl(): Promise<string> {
  return `http://127.0.0.1:${await unusedPort()}`;
}
