/** Names and limits of the embedding model that the gateway itself runs (docs/local-embedder.md). */
export const localProvider = 'local';
export const localModel = 'bge-small-en-v1.5';
export const localModelId = `${localProvider}/${localModel}`;
/** Longer texts are cut by the model's tokenizer. */
export const localModelMaxTokens = 512;
