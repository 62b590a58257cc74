/**
 * Serves the console's style sheet and scripts. Each file is read and compressed once, and its URL contains a hash of
 * the content, so that browsers can cache it forever.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { basename, parse } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { createOnce } from './create-once.ts';

export interface Asset {
  readonly href: string;
  readonly contentType: string;
  encode(encoding: 'br' | 'gzip' | null): Buffer;
}

const contentTypes: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};

const assets = new Map<string, Asset>();

export const assetPath = '/console/assets/';

/**
 * Registers a file to serve. Call this once when a module is loaded, e.g. `defineAsset(new URL('./playground.js',
 * import.meta.url))`.
 */
export function defineAsset(file: URL): Asset {
  return createAsset(basename(file.pathname), readFileSync(file));
}

function createAsset(fileName: string, bytes: Buffer): Asset {
  const { name, ext } = parse(fileName);
  const hash = createHash('sha256').update(bytes).digest('hex').slice(0, 16);
  const href = `${assetPath}${name}-${hash}${ext}`;
  const compressed = createOnce((encoding: 'br' | 'gzip') =>
    encoding === 'gzip' ? gzipSync(bytes) : brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } }),
  );
  const asset: Asset = {
    href,
    contentType: contentTypes[ext] ?? 'application/octet-stream',
    encode: (encoding) => (encoding === null ? bytes : compressed(encoding)),
  };
  assets.set(href, asset);
  return asset;
}

export function findAsset(path: string): Asset | null {
  return assets.get(path) ?? null;
}

// The order matters, because later files override earlier ones.
const styles = ['base', 'layout', 'forms', 'filters', 'tables', 'figures', 'charts', 'narrow'];
export const styleSheet = createAsset(
  'console.css',
  Buffer.concat(styles.map((name) => readFileSync(new URL(`./styles/${name}.css`, import.meta.url)))),
);
export const consoleScript = defineAsset(new URL('./console.js', import.meta.url));
export const icon = defineAsset(new URL('./icon.svg', import.meta.url));
export const htmx = defineAsset(new URL(import.meta.resolve('htmx.org/dist/htmx.min.js')));
