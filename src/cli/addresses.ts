/**
 * Where the services of a data directory answer, for the commands that call one. Each service leaves a file of its own in `addresses/`, named
 * after its host and port, so that several on one directory (`gateway serve`) do not hide each other. A service that was killed leaves its
 * file behind: whoever reads takes the newest address that answers.
 */
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const folderName = 'addresses';
const probeTimeoutMs = 2_000;

/** Makes the address known; returns how to take it back. Rejects when the directory cannot be written. */
export async function publishAddress(dataDir: string, url: string): Promise<() => Promise<void>> {
  const folder = join(dataDir, folderName);
  const file = join(folder, new URL(url).host.replaceAll(':', '-'));
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await writeFile(file, `${url}\n`, { mode: 0o600 });
  return () => rm(file, { force: true });
}

/** The address of a service that answers now; else the newest one, for a message that names it; null when none was ever announced. */
export async function findAddress(dataDir: string): Promise<string | null> {
  const addresses = await listAddresses(join(dataDir, folderName));
  for (const address of addresses) if (await isReachable(address)) return address;
  return addresses[0] ?? null;
}

/** Newest first. */
async function listAddresses(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => []); // No service ever ran here.
  const files = await Promise.all(names.map((name) => readAddress(join(folder, name)).catch(() => null))); // Taken back meanwhile.
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
    return false; // Nobody listens there any more.
  }
}
