/** The names and limits of the embedding models that the gateway can run itself (docs/local-embedder.md). */
export const localProvider = 'local';
export const localModels = ['bge-small-en-v1.5', 'multilingual-e5-small-q4'] as const;
export type LocalModel = (typeof localModels)[number];
/** Used unless the configuration names another model. */
export const defaultLocalModel: LocalModel = 'bge-small-en-v1.5';
/** The tokenizers of both models truncate their input at this length. */
export const localModelMaxTokens = 512;

export function toLocalModelId(model: LocalModel): string {
  return `${localProvider}/${model}`;
}

/** Returns null if the id doesn't name a model that the gateway can run. */
export function findLocalModel(id: string): LocalModel | null {
  return localModels.find((model) => toLocalModelId(model) === id) ?? null;
}
