"""Flavors: `chat` of llama-index-llms-openai-like, `messages` of llama-index-llms-anthropic."""

from driver import CITY, IMAGE_URL, JOB, QUESTION, SAMPLES, TOOL_RESULTS, drive
from llama_index.core.base.llms.types import ThinkingBlock
from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel


class Weather(BaseModel):
    city: str
    days: int


def model_of(model, **more):
    if JOB["flavor"] == "messages":
        from llama_index.llms.anthropic import Anthropic

        return Anthropic(model=model, api_key=JOB["key"], base_url=JOB["url"], **{"max_tokens": 500, **more})
    from llama_index.llms.openai_like import OpenAILike

    kind = {"is_chat_model": True, "is_function_calling_model": True}
    return OpenAILike(model=model, api_key=JOB["key"], api_base=JOB["url"] + "/v1", **kind, **more)


def ask(*blocks):
    return [ChatMessage(role="user", blocks=list(blocks))]


def plain(model, *blocks, **more):
    return {"text": model_of(model, **more).chat(ask(*blocks)).message.content}


def stream(model):
    pieces = [chunk.delta for chunk in model_of(model).stream_chat(ask(TextBlock(text=QUESTION))) if chunk.delta]
    return {"text": "".join(pieces), "pieces": len(pieces)}


def reasoning(model):
    thinking = {"thinking_dict": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000}
    llm = model_of(model, **(thinking if JOB["flavor"] == "messages" else {}))
    message = list(llm.stream_chat(ask(TextBlock(text=QUESTION))))[-1].message
    blocks = [block.content for block in message.blocks if isinstance(block, ThinkingBlock)]
    return {"text": message.content, "reasoning": "".join(blocks)}


def get_weather(city: str, days: int) -> str:
    """Weather of a city"""
    return TOOL_RESULTS["get_weather"]


def get_time(zone: str) -> str:
    """Time of a zone"""
    return TOOL_RESULTS["get_time"]


TOOLS = [FunctionTool.from_defaults(get_weather), FunctionTool.from_defaults(get_time)]


def use_tools(model, respond):
    llm = model_of(model)
    messages = ask(TextBlock(text=CITY))
    first = respond(llm, messages)
    calls = llm.get_tool_calls_from_response(first)
    results = [
        ChatMessage(role="tool", content=TOOL_RESULTS[call.tool_name], additional_kwargs={"tool_call_id": call.tool_id})
        for call in calls
    ]
    last = respond(llm, [*messages, first.message, *results])
    return {"text": last.message.content, "calls": [{"name": call.tool_name, "input": call.tool_kwargs} for call in calls]}


def respond_plain(llm, messages):
    return llm.chat_with_tools(TOOLS, chat_history=messages, allow_parallel_tool_calls=True)


def respond_streamed(llm, messages):
    return list(llm.stream_chat_with_tools(TOOLS, chat_history=messages, allow_parallel_tool_calls=True))[-1]


drive(
    {
        "plain": lambda model: plain(model, TextBlock(text=QUESTION)),
        "stream": stream,
        "tools": lambda model: use_tools(model, respond_plain),
        "stream-tools": lambda model: use_tools(model, respond_streamed),
        "parallel-tools": lambda model: use_tools(model, respond_plain),
        "structured": lambda model: {
            "value": model_of(model).as_structured_llm(Weather).chat(ask(TextBlock(text=CITY))).raw.model_dump()
        },
        "images": lambda model: plain(model, TextBlock(text="Inspect"), ImageBlock(url=IMAGE_URL)),
        "errors": lambda model: plain(model, TextBlock(text=QUESTION), max_retries=0),
        "retries": lambda model: plain(model, TextBlock(text=QUESTION)),
        "timeout": lambda model: plain(model, TextBlock(text=QUESTION), timeout=SAMPLES["timeoutMs"] / 1000, max_retries=0),
        "reasoning": reasoning,
    }
)
