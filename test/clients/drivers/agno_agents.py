"""Flavors: `chat` and `messages`, model classes of agno."""

from agno.exceptions import ContextWindowExceededError
from agno.models.message import Message
from driver import JOB, QUESTION, call_cases, drive


def model_of(model, **more):
    if JOB["flavor"] == "messages":
        from agno.models.anthropic import Claude

        client_params = {"base_url": JOB["url"], **{name: value for name, value in more.items() if name != "timeout"}}
        return Claude(id=model, api_key=JOB["key"], max_tokens=500, timeout=more.get("timeout"), client_params=client_params)
    from agno.models.openai import OpenAIChat

    return OpenAIChat(id=model, api_key=JOB["key"], base_url=JOB["url"] + "/v1", **more)


def plain(model, **more):
    return {"text": model_of(model, **more).response(messages=[Message(role="user", content=QUESTION)]).content}


def stream(model):
    chunks = model_of(model).response_stream(messages=[Message(role="user", content=QUESTION)])
    pieces = [chunk.content for chunk in chunks if getattr(chunk, "content", None)]
    return {"text": "".join(pieces), "pieces": len(pieces)}


def overflow(model):
    try:
        return plain(model, max_retries=0)
    except ContextWindowExceededError:
        return {"overflow": True}


cases = call_cases(plain, stream)
if JOB["flavor"] == "chat":  # The model of messages has no error of its own for it.
    cases["overflow"] = overflow
drive(cases)
