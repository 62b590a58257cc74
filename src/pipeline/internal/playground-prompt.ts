/** Builds the members of a chat completion from what a person entered in the playground. */

export interface PlaygroundToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON text. */
  readonly arguments: string;
}

export interface PlaygroundTurn {
  /** `tool` is the result of a tool that the assistant called in an earlier turn. */
  readonly role: 'user' | 'assistant' | 'tool';
  readonly text: string;
  /** URLs of images, including `data:` URLs. Only user turns have any. */
  readonly images: readonly string[];
  /** The tools that the assistant called. */
  readonly toolCalls: readonly PlaygroundToolCall[];
  /** The call that a `tool` turn is the result of, or an empty string in other turns. */
  readonly toolCallId: string;
}

export interface PlaygroundPrompt {
  /** Empty for no system prompt. */
  readonly system: string;
  readonly turns: readonly PlaygroundTurn[];
  readonly temperature: number | null;
  readonly maxTokens: number | null;
  /** Tool definitions in OpenAI's format. */
  readonly tools: readonly object[];
  /** The `json_schema` member of a response format, or null for free text. */
  readonly schema: object | null;
}

/** Returns the members of a chat completion, without those that aren't set. */
export function chatMembers({ system, turns, temperature, maxTokens, tools, schema }: PlaygroundPrompt): Record<string, unknown> {
  return {
    messages: [...(system === '' ? [] : [{ role: 'system', content: system }]), ...turns.map(toMessage)],
    ...(tools.length > 0 && { tools }),
    ...(schema !== null && { response_format: { type: 'json_schema', json_schema: schema } }),
    ...(temperature !== null && { temperature }),
    ...(maxTokens !== null && { max_tokens: maxTokens }),
  };
}

function toMessage({ role, text, images, toolCalls, toolCallId }: PlaygroundTurn): object {
  switch (role) {
    case 'tool':
      return { role, tool_call_id: toolCallId, content: text };
    case 'assistant': {
      const calls = toolCalls.map(({ id, name, arguments: given }) => ({ id, type: 'function', function: { name, arguments: given } }));
      return calls.length === 0 ? { role, content: text } : { role, content: text === '' ? null : text, tool_calls: calls };
    }
    case 'user': {
      if (images.length === 0) return { role, content: text };
      const parts = images.map((url) => ({ type: 'image_url', image_url: { url } }));
      return { role, content: [...(text === '' ? [] : [{ type: 'text', text }]), ...parts] };
    }
  }
}
