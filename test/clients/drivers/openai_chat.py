import json

from driver import CHAT_TOOLS, CITY, IMAGE_URL, JOB, QUESTION, SAMPLES, TOOL_RESULTS, drive
from openai import OpenAI

client = OpenAI(base_url=JOB["url"] + "/v1", api_key=JOB["key"])
completions = client.chat.completions


def ask(content):
    return [{"role": "user", "content": content}]


def plain(**body):
    completion = completions.create(**body)
    message = completion.choices[0].message
    return {
        "text": message.content,
        "calls": [
            {"id": call.id, "name": call.function.name, "arguments": call.function.arguments}
            for call in message.tool_calls or []
        ],
        "tokens": {"input": completion.usage.prompt_tokens, "output": completion.usage.completion_tokens},
    }


def streamed(**body):
    text, pieces, calls = "", 0, []
    for chunk in completions.create(stream=True, **body):
        # The usual loop: it fails on a chunk without choices.
        delta = chunk.choices[0].delta
        pieces += 1 if delta.content else 0
        text += delta.content or ""
        for part in delta.tool_calls or []:
            if part.id:
                calls.insert(part.index, {"id": part.id, "name": part.function.name, "arguments": ""})
            calls[part.index]["arguments"] += part.function.arguments or ""
    return {"text": text, "pieces": pieces, "calls": calls}


def use_tools(model, respond):
    messages = ask(CITY)
    calls = respond(model=model, messages=messages, tools=CHAT_TOOLS)["calls"]
    functions = [
        {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
        for call in calls
    ]
    messages.append({"role": "assistant", "content": None, "tool_calls": functions})
    messages += [{"role": "tool", "tool_call_id": call["id"], "content": TOOL_RESULTS[call["name"]]} for call in calls]
    return {
        "text": respond(model=model, messages=messages, tools=CHAT_TOOLS)["text"],
        "calls": [{"name": call["name"], "input": json.loads(call["arguments"])} for call in calls],
    }


def structured(model):
    from pydantic import BaseModel

    class Weather(BaseModel):
        city: str
        days: int

    parse = getattr(completions, "parse", None) or client.beta.chat.completions.parse
    return {"value": parse(model=model, messages=ask(CITY), response_format=Weather).choices[0].message.parsed.model_dump()}


def reasoning(model):
    text, thought = "", ""
    for chunk in completions.create(model=model, messages=ask(QUESTION), reasoning_effort="low", stream=True):
        delta = chunk.choices[0].delta
        text += delta.content or ""
        thought += getattr(delta, "reasoning_content", None) or ""
    return {"text": text, "reasoning": thought}


def models(_model):
    return {"ids": [model.id for model in client.models.list()]}


IMAGE = [{"type": "text", "text": "Inspect"}, {"type": "image_url", "image_url": {"url": IMAGE_URL}}]
drive(
    {
        "plain": lambda model: plain(model=model, messages=ask(QUESTION)),
        "stream": lambda model: streamed(model=model, messages=ask(QUESTION)),
        "tools": lambda model: use_tools(model, plain),
        "stream-tools": lambda model: use_tools(model, streamed),
        "parallel-tools": lambda model: use_tools(model, streamed),
        "structured": structured,
        "images": lambda model: plain(model=model, messages=ask(IMAGE)),
        "errors": lambda model: plain(model=model, messages=ask(QUESTION)),
        "retries": lambda model: plain(model=model, messages=ask(QUESTION)),
        "timeout": lambda model: plain(model=model, messages=ask(QUESTION), timeout=SAMPLES["timeoutMs"] / 1000),
        "reasoning": reasoning,
        "models": models,
    }
)
