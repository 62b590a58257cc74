/** The names and limits of the embedding models that the gateway can run itself (docs/local-embedder.md). */
export const localProvider = 'local';
export const localModels = ['bge-small-en-v1.5', 'multilingual-e5-small-q4'] as const;
export type LocalModel = (typeof localModels)[number];
export const defaultLocalModel: LocalModel = 'bge-small-en-v1.5';
/** The maximum input length of both local models. Their tokenizers truncate longer texts. */
export const localModelMaxTokens = 512;

export function toLocalModelId(model: LocalModel): string {
  return `${localProvider}/${model}`;
}

export function findLocalModel(id: string): LocalModel | null {
  return localModels.find((model) => toLocalModelId(model) === id) ?? null;
}
