"""google-adk, whose agents reach other vendors through its LiteLlm model. Flavors: `chat` and `messages`, prefixes of litellm."""

from driver import JOB, QUESTION, call_cases, drive
from google.adk.models.lite_llm import LiteLlm
from google.adk.models.llm_request import LlmRequest
from google.genai.types import Content, Part

MESSAGES = JOB["flavor"] == "messages"


def model_of(model, **more):
    url = JOB["url"] if MESSAGES else JOB["url"] + "/v1"
    return LiteLlm(model=("anthropic/" if MESSAGES else "openai/") + model, api_base=url, api_key=JOB["key"], **more)


async def responses_of(model, is_stream=False, **more):
    llm = model_of(model, **more)
    request = LlmRequest(model=llm.model, contents=[Content(role="user", parts=[Part(text=QUESTION)])])
    return [response async for response in llm.generate_content_async(request, stream=is_stream)]


def text_of(response):
    parts = response.content.parts if response.content else []
    return "".join(part.text or "" for part in parts)


async def plain(model, **more):
    [response] = await responses_of(model, **more)
    return {"text": text_of(response)}


async def stream(model):
    pieces = [text_of(response) for response in await responses_of(model, is_stream=True) if response.partial]
    return {"text": "".join(pieces), "pieces": len(pieces)}


cases = call_cases(plain, stream, retries="num_retries")
drive({**cases, "retries": lambda model: plain(model, num_retries=2)})
