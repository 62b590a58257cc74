/**
 * Converts a packed model to the files that the embedder loads. Run it as `unpack-model.ts <packed model> <folder>`.
 */
import { open, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buildOnnx } from './build-onnx.ts';
import { readPacked } from './read-packed.ts';

const [packed = '', folder = ''] = process.argv.slice(2);
const model = readPacked(await readFile(packed));
const file = await open(join(folder, 'model.onnx'), 'w', 0o600);
for (const part of buildOnnx(model)) await file.write(part);
await file.close();
await writeFile(join(folder, 'tokenizer.bin'), model.pieces, { mode: 0o600 });
