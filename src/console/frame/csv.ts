/** Streams CSV (RFC 4180) as fast as the client reads it. */
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { CsvResult, CsvValue } from './route.ts';

const chunkSize = 16_384;

/** Resolves once all rows have been sent. Rejects if a row can't be read or the client disconnects. */
export async function sendCsv(response: ServerResponse, result: CsvResult): Promise<void> {
  await pipeline(Readable.from(encodeRows(result), { highWaterMark: 2 }), response);
}

async function* encodeRows({ header, rows }: CsvResult): AsyncGenerator<string> {
  let text = formatCsvRow(header);
  for await (const row of rows) {
    text += formatCsvRow(row);
    if (text.length < chunkSize) continue;
    yield text;
    text = '';
  }
  if (text !== '') yield text;
}

function formatCsvRow(values: readonly CsvValue[]): string {
  return `${values.map(formatValue).join(',')}\r\n`;
}

/** Puts an apostrophe in front of text that a spreadsheet would evaluate as a formula. Numbers stay unchanged. */
function formatValue(value: CsvValue): string {
  if (value === null) return '';
  if (typeof value !== 'string') return String(value);
  const text = /^[=+\-@\t\r\n]/.test(value) && !/^[+-]?\d+(?:\.\d+)?$/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
