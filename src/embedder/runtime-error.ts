/**
 * The ONNX runtime has failed. It only gets numbers, so its messages can't contain text of a request, and we can log
 * them.
 */
export class RuntimeError extends Error {
  override readonly name = 'RuntimeError';
}
