from anthropic import Anthropic
from driver import CITY, JOB, MESSAGES_TOOLS, QUESTION, SAMPLES, TOOL_RESULTS, drive

client = Anthropic(base_url=JOB["url"], api_key=JOB["key"])


def ask(content):
    return [{"role": "user", "content": content}]


def create(**body):
    return client.messages.create(max_tokens=500, **body)


def final(**body):
    with client.messages.stream(max_tokens=500, **body) as running:
        return running.get_final_message()


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def plain(model, content, **more):
    message = create(model=model, messages=ask(content), **more)
    return {
        "text": text_of(message),
        "tokens": {"input": message.usage.input_tokens, "output": message.usage.output_tokens},
    }


def stream(model):
    with client.messages.stream(max_tokens=500, model=model, messages=ask(QUESTION)) as running:
        pieces = list(running.text_stream)
    return {"text": "".join(pieces), "pieces": len(pieces)}


def use_tools(model, respond):
    messages = ask(CITY)
    first = respond(model=model, messages=messages, tools=MESSAGES_TOOLS)
    uses = [block for block in first.content if block.type == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": use.id, "content": TOOL_RESULTS[use.name]} for use in uses]
    given = [{"type": "tool_use", "id": use.id, "name": use.name, "input": use.input} for use in uses]
    messages += [{"role": "assistant", "content": given}, {"role": "user", "content": results}]
    return {
        "text": text_of(respond(model=model, messages=messages, tools=MESSAGES_TOOLS)),
        "calls": [{"name": use.name, "input": use.input} for use in uses],
    }


def structured(model):
    # One forced tool: the way of all versions of the SDK.
    choice = {"type": "tool", "name": "get_weather"}
    message = create(model=model, messages=ask(CITY), tools=MESSAGES_TOOLS, tool_choice=choice)
    return {"value": next(block.input for block in message.content if block.type == "tool_use")}


def reasoning(model):
    thinking = {"type": "enabled", "budget_tokens": 1024}
    body = {"model": model, "max_tokens": 2000, "messages": ask(QUESTION), "extra_body": {"thinking": thinking}}
    deltas = [getattr(event, "delta", None) for event in client.messages.create(stream=True, **body)]
    return {
        "text": "".join(getattr(delta, "text", "") or "" for delta in deltas),
        "reasoning": "".join(getattr(delta, "thinking", "") or "" for delta in deltas),
    }


IMAGE = [
    {"type": "text", "text": "Inspect"},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": SAMPLES["image"]}},
]
cases = {
    "plain": lambda model: plain(model, QUESTION),
    "stream": stream,
    "tools": lambda model: use_tools(model, create),
    "stream-tools": lambda model: use_tools(model, final),
    "parallel-tools": lambda model: use_tools(model, final),
    "structured": structured,
    "images": lambda model: plain(model, IMAGE),
    "errors": lambda model: plain(model, QUESTION),
    "retries": lambda model: plain(model, QUESTION),
    "timeout": lambda model: plain(model, QUESTION, timeout=SAMPLES["timeoutMs"] / 1000),
    "reasoning": reasoning,
}
if hasattr(client, "models"):
    cases["models"] = lambda _model: {"ids": [model.id for model in client.models.list()]}
if hasattr(client.messages, "count_tokens"):
    cases["count-tokens"] = lambda model: {"count": client.messages.count_tokens(model=model, messages=ask(QUESTION)).input_tokens}
drive(cases)
