import json

from driver import CITY, IMAGE_URL, JOB, QUESTION, SAMPLES, TOOL_RESULTS, drive
from openai import OpenAI
from pydantic import BaseModel

responses = OpenAI(base_url=JOB["url"] + "/v1", api_key=JOB["key"]).responses
TOOLS = [{"type": "function", "strict": True, **tool} for tool in SAMPLES["tools"]]


class Weather(BaseModel):
    city: str
    days: int


def plain(model, content):
    response = responses.create(model=model, input=content)
    return {
        "text": response.output_text,
        "tokens": {"input": response.usage.input_tokens, "output": response.usage.output_tokens},
    }


def stream(model):
    pieces = [
        event.delta
        for event in responses.create(model=model, input=QUESTION, stream=True)
        if event.type == "response.output_text.delta"
    ]
    return {"text": "".join(pieces), "pieces": len(pieces)}


def final(**body):
    with responses.stream(**body) as running:
        return running.get_final_response()


def use_tools(model, respond):
    messages = [{"role": "user", "content": CITY}]
    first = respond(model=model, input=messages, tools=TOOLS, store=False)
    calls = [item for item in first.output if item.type == "function_call"]
    given = [{"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments} for call in calls]
    results = [{"type": "function_call_output", "call_id": call.call_id, "output": TOOL_RESULTS[call.name]} for call in calls]
    last = respond(model=model, input=messages + given + results, tools=TOOLS, store=False)
    return {"text": last.output_text, "calls": [{"name": call.name, "input": json.loads(call.arguments)} for call in calls]}


def reasoning(model):
    response = final(model=model, input=QUESTION, reasoning={"summary": "auto"})
    item = next(item for item in response.output if item.type == "reasoning")
    return {"text": response.output_text, "reasoning": "".join(part.text for part in item.summary)}


def structured(model):
    return {"value": responses.parse(model=model, input=CITY, text_format=Weather).output_parsed.model_dump()}


IMAGE = [{"type": "input_text", "text": "Inspect"}, {"type": "input_image", "detail": "auto", "image_url": IMAGE_URL}]
drive(
    {
        "plain": lambda model: plain(model, QUESTION),
        "stream": stream,
        "tools": lambda model: use_tools(model, responses.create),
        "stream-tools": lambda model: use_tools(model, final),
        "parallel-tools": lambda model: use_tools(model, final),
        "structured": structured,
        "images": lambda model: plain(model, [{"role": "user", "content": IMAGE}]),
        "errors": lambda model: plain(model, QUESTION),
        "retries": lambda model: plain(model, QUESTION),
        "reasoning": reasoning,
    }
)
