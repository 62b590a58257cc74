"""Flavors: `chat` and `messages`, the prefixes openai/ and anthropic/ of litellm."""

import json

import litellm
from driver import CHAT_TOOLS, CITY, IMAGE_URL, JOB, QUESTION, SAMPLES, TOOL_RESULTS, drive

litellm.telemetry = False
MESSAGES = JOB["flavor"] == "messages"


def complete(model, content, **more):
    messages = content if isinstance(content, list) and "role" in content[0] else [{"role": "user", "content": content}]
    return litellm.completion(
        model=("anthropic/" if MESSAGES else "openai/") + model,
        api_base=JOB["url"] if MESSAGES else JOB["url"] + "/v1",
        api_key=JOB["key"],
        max_tokens=500,
        messages=messages,
        **more,
    )


def plain(model, content, **more):
    completion = complete(model, content, **more)
    usage = completion.usage
    return {
        "text": completion.choices[0].message.content,
        "tokens": {"input": usage.prompt_tokens, "output": usage.completion_tokens},
    }


def streamed(model, content, **more):
    chunks = list(complete(model, content, stream=True, **more))
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices[0].delta.content]
    return litellm.stream_chunk_builder(chunks), pieces


def stream(model):
    _, pieces = streamed(model, QUESTION)
    return {"text": "".join(pieces), "pieces": len(pieces)}


def use_tools(model, respond):
    messages = [{"role": "user", "content": CITY}]
    message = respond(model, messages, tools=CHAT_TOOLS).choices[0].message
    calls = message.tool_calls
    messages.append(message.model_dump(exclude_none=True))
    messages += [{"role": "tool", "tool_call_id": call.id, "content": TOOL_RESULTS[call.function.name]} for call in calls]
    last = respond(model, messages, tools=CHAT_TOOLS).choices[0].message
    inputs = [{"name": call.function.name, "input": json.loads(call.function.arguments)} for call in calls]
    return {"text": last.content, "calls": inputs}


def structured(model):
    schema = {"name": "weather", "strict": True, "schema": SAMPLES["tools"][0]["parameters"]}
    completion = complete(model, CITY, response_format={"type": "json_schema", "json_schema": schema})
    return {"value": json.loads(completion.choices[0].message.content)}


def overflow(model):
    try:
        return plain(model, QUESTION)
    except litellm.ContextWindowExceededError:
        return {"overflow": True}


def reasoning(model):
    message = streamed(model, QUESTION, reasoning_effort="low", allowed_openai_params=["reasoning_effort"])[0].choices[0].message
    return {"text": message.content, "reasoning": message.reasoning_content}


IMAGE = [{"type": "text", "text": "Inspect"}, {"type": "image_url", "image_url": {"url": IMAGE_URL}}]
drive(
    {
        "plain": lambda model: plain(model, QUESTION),
        "stream": stream,
        "tools": lambda model: use_tools(model, complete),
        "stream-tools": lambda model: use_tools(model, lambda *args, **more: streamed(*args, **more)[0]),
        "parallel-tools": lambda model: use_tools(model, lambda *args, **more: streamed(*args, **more)[0]),
        "structured": structured,
        "images": lambda model: plain(model, [{"role": "user", "content": IMAGE}]),
        "errors": lambda model: plain(model, QUESTION),
        "retries": lambda model: plain(model, QUESTION, num_retries=2),
        "overflow": overflow,
        "timeout": lambda model: plain(model, QUESTION, timeout=SAMPLES["timeoutMs"] / 1000),
        "reasoning": reasoning,
    }
)
