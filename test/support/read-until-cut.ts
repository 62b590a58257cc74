/** Reads response bodies that may be incomplete. */
import { expect } from '@jest/globals';

export interface ReceivedText {
  readonly text: string;
  /** True if the connection ended before the end of the body. */
  readonly isCut: boolean;
}

/** Returns the text that arrived, even if the connection ended early. */
export async function readUntilCut({ body }: Response): Promise<ReceivedText> {
  const decoder = new TextDecoder();
  let text = '';
  try {
    for await (const bytes of body ?? []) text += decoder.decode(bytes, { stream: true });
    return { text, isCut: false };
  } catch (error) {
    expect(error).toMatchObject({ message: 'terminated', cause: { message: 'other side closed' } });
    return { text, isCut: true };
  }
}
