/**
 * Publishes the addresses of the services that use a data directory, so that commands can find a running service. Each
 * service has its own file in `addresses/`, which is named after its host and port, so services that share a directory
 * don't overwrite each other's file. A killed service leaves its file behind, so readers use the newest address that
 * responds.
 */
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const folderName = 'addresses';
const probeTimeoutMs = 2_000;

/** Publishes the address. Returns a function that removes it again. Rejects if the directory isn't writable. */
export async function publishAddress(dataDir: string, url: string): Promise<() => Promise<void>> {
  const folder = join(dataDir, folderName);
  const file = join(folder, new URL(url).host.replaceAll(':', '-'));
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await writeFile(file, `${url}\n`, { mode: 0o600 });
  return () => rm(file, { force: true });
}

/**
 * Returns the address of a service that responds. If none does, returns the newest address for an error message, or
 * null if there isn't one.
 */
export async function findAddress(dataDir: string): Promise<string | null> {
  const addresses = await listAddresses(join(dataDir, folderName));
  for (const address of addresses) if (await isReachable(address)) return address;
  return addresses[0] ?? null;
}

/** Lists the published addresses, newest first. */
async function listAddresses(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => []); // no service has been started yet
  // Another process may have removed it.
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
    return false; // The service isn't listening any more.
  }
}
