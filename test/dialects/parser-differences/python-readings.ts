/** Parses bodies with Python's parsers. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ensurePython } from '../../support/python.ts';
import { run } from '../../support/run.ts';

export type PythonCase =
  | { readonly kind: 'json'; readonly body: Buffer }
  | { readonly kind: 'multipart'; readonly body: Buffer; readonly contentType: string; readonly fileNames: readonly string[] };

export interface PythonReading {
  readonly texts: readonly string[];
  /** Only for JSON. The top-level strings and numbers, once for each way in which Python can read the body. */
  readonly limits?: readonly Readonly<Record<string, string>>[];
  /** Only for multipart. The names and values of the fields. */
  readonly fields?: readonly (readonly [string, string])[];
}

export async function readWithPython(cases: readonly PythonCase[]): Promise<PythonReading[]> {
  const folder = await mkdtemp(join(tmpdir(), 'readings-'));
  try {
    const file = join(folder, 'bodies.jsonl');
    const lines = cases.map(({ body, ...rest }) =>
      JSON.stringify({
        kind: rest.kind,
        body: body.toString('base64'),
        ...(rest.kind === 'multipart' && { content_type: rest.contentType, file_names: rest.fileNames }),
      }),
    );
    await writeFile(file, `${lines.join('\n')}\n`);
    const script = fileURLToPath(new URL('./readings.py', import.meta.url));
    const output = await run(await ensurePython(), [script, file]);
    return output
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as PythonReading);
  } finally {
    await rm(folder, { recursive: true });
  }
}
