/** An OTLP collector that uses HTTP with protobuf, and keeps all spans that it receives. */
import { type LocalServer, startLocalServer } from './local-server.ts';

export interface CollectedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  /** The id of the parent span. Empty for the root of a trace. */
  readonly parentId: string;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  /** The ids of linked spans. */
  readonly links: readonly string[];
  readonly hasFailed: boolean;
  /** In nanoseconds since 1970. */
  readonly startedAt: bigint;
  readonly endedAt: bigint;
}

/** Point `OTEL_EXPORTER_OTLP_ENDPOINT` to its URL. */
export interface OtlpCollector extends LocalServer {
  readonly spans: readonly CollectedSpan[];
  /** Returns the bodies and headers of all requests as they arrived. */
  received(): string;
}

export async function createOtlpCollector(): Promise<OtlpCollector> {
  const spans: CollectedSpan[] = [];
  const received: string[] = [];
  const server = await startLocalServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks);
      received.push(`${request.url} ${JSON.stringify(request.headers)}`, body.toString('latin1'));
      spans.push(...readSpans(body));
      response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end();
    });
  });
  return {
    ...server,
    spans,
    received: () => received.join('\n'),
  };
}

/** The field numbers are those in opentelemetry/proto/trace/v1/trace.proto. */
function readSpans(body: Buffer): CollectedSpan[] {
  const resources = readMessage(body).get(1) ?? [];
  const scopes = resources.flatMap((resource) => readMessage(bytesOf(resource)).get(2) ?? []);
  const spans = scopes.flatMap((scope) => readMessage(bytesOf(scope)).get(2) ?? []);
  return spans.map((span) => {
    const fields = readMessage(bytesOf(span));
    const hex = (field: number): string => bytesOf(fields.get(field)?.[0] ?? Buffer.alloc(0)).toString('hex');
    return {
      traceId: hex(1),
      spanId: hex(2),
      parentId: hex(4),
      name: bytesOf(fields.get(5)?.[0] ?? Buffer.alloc(0)).toString(),
      startedAt: bytesOf(fields.get(7)?.[0] ?? Buffer.alloc(8)).readBigUInt64LE(),
      endedAt: bytesOf(fields.get(8)?.[0] ?? Buffer.alloc(8)).readBigUInt64LE(),
      attributes: Object.fromEntries((fields.get(9) ?? []).map((pair) => readAttribute(bytesOf(pair)))),
      links: (fields.get(13) ?? []).map((link) => bytesOf(readMessage(bytesOf(link)).get(2)?.[0] ?? Buffer.alloc(0)).toString('hex')),
      hasFailed: readMessage(bytesOf(fields.get(15)?.[0] ?? Buffer.alloc(0))).get(3)?.[0] === 2n,
    };
  });
}

function readAttribute(pair: Buffer): [string, string | number | boolean] {
  const fields = readMessage(pair);
  const value = readMessage(bytesOf(fields.get(2)?.[0] ?? Buffer.alloc(0)));
  const [text, flag, integer, double] = [1, 2, 3, 4].map((field) => value.get(field)?.[0]);
  const name = bytesOf(fields.get(1)?.[0] ?? Buffer.alloc(0)).toString();
  if (text !== undefined) return [name, bytesOf(text).toString()];
  if (flag !== undefined) return [name, flag === 1n];
  return [name, integer === undefined ? bytesOf(double ?? Buffer.alloc(8)).readDoubleLE() : Number(integer)];
}

type Field = bigint | Buffer;

function bytesOf(field: Field): Buffer {
  if (typeof field === 'bigint') throw new Error('a number in place of bytes');
  return field;
}

/** Returns the fields of a protobuf message. Varints become numbers, and all other types are bytes. */
function readMessage(bytes: Buffer): Map<number, Field[]> {
  const fields = new Map<number, Field[]>();
  let at = 0;
  const readVarint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes.readUInt8(at++);
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.length) {
    const tag = Number(readVarint());
    const type = tag & 7;
    let field: Field;
    if (type === 0) field = readVarint();
    else {
      const length = type === 2 ? Number(readVarint()) : type === 1 ? 8 : 4;
      field = bytes.subarray(at, at + length);
      at += length;
    }
    fields.set(tag >> 3, [...(fields.get(tag >> 3) ?? []), field]);
  }
  return fields;
}
