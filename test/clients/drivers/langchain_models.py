"""Flavors: `chat` and `responses` of langchain-openai, `messages` of langchain-anthropic."""

from driver import CHAT_TOOLS, CITY, IMAGE_URL, JOB, QUESTION, SAMPLES, TOOL_RESULTS, drive
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import HumanMessage, ToolMessage

FLAVOR = JOB["flavor"]


def model_of(model, **more):
    if FLAVOR == "messages":
        from langchain_anthropic import ChatAnthropic

        return ChatAnthropic(model=model, api_key=JOB["key"], base_url=JOB["url"], **{"max_tokens": 500, **more})
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(
        model=model, api_key=JOB["key"], base_url=JOB["url"] + "/v1", use_responses_api=FLAVOR == "responses", **more
    )


def text_of(message):
    return message.text() if callable(message.text) and not isinstance(message.text, str) else str(message.text)


def plain(model, messages, **more):
    message = model_of(model, **more).invoke(messages)
    usage = message.usage_metadata
    return {"text": text_of(message), "tokens": {"input": usage["input_tokens"], "output": usage["output_tokens"]}}


def streamed(model, messages):
    whole, pieces = None, 0
    for chunk in model.stream(messages):
        pieces += 1 if text_of(chunk) else 0
        whole = chunk if whole is None else whole + chunk
    return whole, pieces


def stream(model):
    message, pieces = streamed(model_of(model), QUESTION)
    return {"text": text_of(message), "pieces": pieces}


def use_tools(model, respond):
    bound = model_of(model).bind_tools(CHAT_TOOLS)
    messages = [HumanMessage(CITY)]
    first = respond(bound, messages)
    calls = first.tool_calls
    results = [ToolMessage(tool_call_id=call["id"], content=TOOL_RESULTS[call["name"]]) for call in calls]
    last = respond(bound, [*messages, first, *results])
    return {"text": text_of(last), "calls": [{"name": call["name"], "input": call["args"]} for call in calls]}


def structured(model):
    schema = {"title": "weather", "description": "Weather of a city", **SAMPLES["tools"][0]["parameters"]}
    return {"value": model_of(model).with_structured_output(schema).invoke(CITY)}


def overflow(model):
    try:
        return plain(model, QUESTION, max_retries=0)
    except ContextOverflowError:
        return {"overflow": True}


def reasoning(model):
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000}
    message, _ = streamed(model_of(model, **(thinking if FLAVOR == "messages" else {})), QUESTION)
    blocks = [block["reasoning"] for block in message.content_blocks if block["type"] == "reasoning"]
    return {"text": text_of(message), "reasoning": "".join(blocks)}


IMAGE = [{"type": "text", "text": "Inspect"}, {"type": "image_url", "image_url": {"url": IMAGE_URL}}]
cases = {
    "plain": lambda model: plain(model, QUESTION),
    "stream": stream,
    "tools": lambda model: use_tools(model, lambda bound, messages: bound.invoke(messages)),
    "stream-tools": lambda model: use_tools(model, lambda bound, messages: streamed(bound, messages)[0]),
    "parallel-tools": lambda model: use_tools(model, lambda bound, messages: streamed(bound, messages)[0]),
    "structured": structured,
    "images": lambda model: plain(model, [HumanMessage(content=IMAGE)]),
    "errors": lambda model: plain(model, QUESTION, max_retries=0),
    "retries": lambda model: plain(model, QUESTION),
    "overflow": overflow,
    "timeout": lambda model: plain(model, QUESTION, timeout=SAMPLES["timeoutMs"] / 1000, max_retries=0),
}
if FLAVOR != "chat":  # Chat models of this package show no reasoning.
    cases["reasoning"] = reasoning
drive(cases)
