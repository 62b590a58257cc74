export interface PlaygroundToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

export interface PlaygroundTurn {
  /** A `tool` turn contains the result of an earlier tool call by the assistant. */
  readonly role: 'user' | 'assistant' | 'tool';
  readonly text: string;
  /** URLs of images, which can be `data:` URLs. Only user turns can have images. */
  readonly images: readonly string[];
  readonly toolCalls: readonly PlaygroundToolCall[];
  /** In a `tool` turn, the id of the tool call that was answered. Empty in all other turns. */
  readonly toolCallId: string;
}

export interface PlaygroundPrompt {
  readonly system: string;
  readonly turns: readonly PlaygroundTurn[];
  readonly temperature: number | null;
  readonly maxTokens: number | null;
  readonly tools: readonly object[];
  /** The `json_schema` of the response format, or null for free text. */
  readonly schema: object | null;
}

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
