/** Encodes ONNX models. Only supports the messages of the protobuf schema that we need. */

/** The chunks of an encoded message. They're written one by one, because joining them would copy large tensors. */
export type Parts = readonly Uint8Array[];

export interface Node {
  readonly operator: string;
  /** Not set for operators of the ONNX standard. */
  readonly domain?: string;
  readonly inputs: readonly string[];
  readonly output: string;
  readonly attributes?: Readonly<Record<string, { readonly int: number } | { readonly float: number }>>;
}

/** ONNX tensor types, with their numbers in the protobuf schema. */
const elementTypes = { float: 1, int8: 3, int64: 7, int4: 22 } as const;
export type ElementType = keyof typeof elementTypes;

export interface Tensor {
  readonly name: string;
  readonly type: ElementType;
  readonly dims: readonly number[];
  readonly data: Uint8Array;
}

/** An input or output of the graph. A dimension is a number if it's fixed, or a name if it depends on the input. */
export interface Value {
  readonly name: string;
  readonly type: ElementType;
  readonly dims: readonly (number | string)[];
}

export interface Graph {
  readonly nodes: readonly Node[];
  readonly tensors: readonly Tensor[];
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  /** The version of each operator set, by domain. The empty string is ONNX's default domain. */
  readonly versions: Readonly<Record<string, number>>;
}

const irVersion = 10;

export function encodeModel({ nodes, tensors, inputs, outputs, versions }: Graph): Parts {
  const graph = [
    ...nodes.flatMap((node) => message(1, encodeNode(node))),
    ...text(2, 'model'),
    ...tensors.flatMap((tensor) => message(5, encodeTensor(tensor))),
    ...inputs.flatMap((value) => message(11, encodeValue(value))),
    ...outputs.flatMap((value) => message(12, encodeValue(value))),
  ];
  return [
    ...integer(1, irVersion),
    ...message(7, graph),
    ...Object.entries(versions).flatMap(([domain, version]) => message(8, [...text(1, domain), ...integer(2, version)])),
  ];
}

function encodeNode({ operator, domain, inputs, output, attributes = {} }: Node): Parts {
  return [
    ...inputs.flatMap((input) => text(1, input)),
    ...text(2, output),
    ...text(4, operator),
    ...Object.entries(attributes).flatMap(([name, value]) => message(5, [...text(1, name), ...encodeAttribute(value)])),
    ...(domain === undefined ? [] : text(7, domain)),
  ];
}

function encodeAttribute(value: NonNullable<Node['attributes']>[string]): Parts {
  if ('float' in value) return [varint((2 << 3) | 5), new Uint8Array(Float32Array.of(value.float).buffer), ...integer(20, 1)];
  return [...integer(3, value.int), ...integer(20, 2)];
}

function encodeTensor({ name, type, dims, data }: Tensor): Parts {
  return [...dims.flatMap((dim) => integer(1, dim)), ...integer(2, elementTypes[type]), ...text(8, name), ...message(9, [data])];
}

function encodeValue({ name, type, dims }: Value): Parts {
  const shape = dims.flatMap((dim) => message(1, typeof dim === 'number' ? integer(1, dim) : text(2, dim)));
  const tensorType = [...integer(1, elementTypes[type]), ...message(2, shape)];
  return [...text(1, name), ...message(2, message(1, tensorType))];
}

function integer(field: number, value: number): Parts {
  return [varint(field << 3), varint(value)];
}

function text(field: number, value: string): Parts {
  return message(field, [Buffer.from(value)]);
}

function message(field: number, parts: Parts): Parts {
  return [varint((field << 3) | 2), varint(parts.reduce((sum, part) => sum + part.byteLength, 0)), ...parts];
}

function varint(value: number): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7f; rest = Math.floor(rest / 0x80)) bytes.push((rest & 0x7f) | 0x80);
  return Uint8Array.of(...bytes, rest);
}
