/**
 * Publishes the addresses of the services that use a data directory, so that commands can find one that's running.
 * Services may share a directory, so each has its own file in `addresses/`, named after its host and port. A service
 * that was killed leaves its file behind, which is why readers take the newest address that responds.
 */
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const folderName = 'addresses';
const probeTimeoutMs = 2_000;

/** Returns a function that removes the address again. Rejects if the directory isn't writable. */
export async function publishAddress(dataDir: string, url: string): Promise<() => Promise<void>> {
  const folder = join(dataDir, folderName);
  const file = join(folder, new URL(url).host.replaceAll(':', '-'));
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await writeFile(file, `${url}\n`, { mode: 0o600 });
  return () => rm(file, { force: true });
}

/**
 * Returns the newest address that responds. If none of them responds, returns the newest one for the error message, or
 * null if the directory has none.
 */
export async function findAddress(dataDir: string): Promise<string | null> {
  const addresses = await listAddresses(join(dataDir, folderName));
  for (const address of addresses) if (await isReachable(address)) return address;
  return addresses[0] ?? null;
}

async function listAddresses(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => []); // No service has ever been started here.
  // Another process may have removed the file since it was listed.
  const files = await Promise.all(names.map((name) => readAddress(join(folder, name)).catch(() => null)));
  return files
    .flatMap((file) => (file !== null && URL.canParse(file.url) ? [file] : []))
    .toSorted((one, other) => other.writtenAt - one.writtenAt)
    .map(({ url }) => url);
}

async function readAddress(file: string): Promise<{ url: string; writtenAt: number }> {
  const [text, { mtimeMs }] = await Promise.all([readFile(file, 'utf8'), stat(file)]);
  return { url: text.trim(), writtenAt: mtimeMs };
}

async function isReachable(address: string): Promise<boolean> {
  try {
    const response = await fetch(new URL('/healthz', address), { signal: AbortSignal.timeout(probeTimeoutMs) });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false; // No service is listening at this address.
  }
}
