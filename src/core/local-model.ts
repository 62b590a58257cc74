/** The names and limits of the embedding model that the gateway runs itself (docs/local-embedder.md). */
export const localProvider = 'local';
export const localModel = 'bge-small-en-v1.5';
export const localModelId = `${localProvider}/${localModel}`;
/** The model's tokenizer truncates longer texts. */
export const localModelMaxTokens = 512;
