"""Flavors: `chat` and `messages`, the providers `openai` and `anthropic` of mem0's language model; its embeddings always use OpenAI's API."""

import base64
import os
import tempfile

os.environ["MEM0_TELEMETRY"] = "False"
folder = tempfile.TemporaryDirectory()
os.environ["MEM0_DIR"] = folder.name

from driver import IMAGE_URL, JOB, QUESTION, drive  # noqa: E402
from mem0 import Memory  # noqa: E402

PROVIDER = "anthropic" if JOB["flavor"] == "messages" else "openai"
BASE_URL = JOB["url"] if PROVIDER == "anthropic" else JOB["url"] + "/v1"
DIMENSIONS = 16


def memory_of(model):
    language_model = {"model": model, "api_key": JOB["key"], f"{PROVIDER}_base_url": BASE_URL, "max_tokens": 500}
    embedder = {"model": "chat/embed", "api_key": JOB["key"], "openai_base_url": JOB["url"] + "/v1", "embedding_dims": DIMENSIONS}
    return Memory.from_config(
        {
            "llm": {"provider": PROVIDER, "config": language_model},
            "embedder": {"provider": "openai", "config": embedder},
            "vector_store": {
                "provider": "qdrant",
                "config": {
                    "collection_name": base64.b32encode(os.urandom(5)).decode(),
                    "path": os.path.join(folder.name, base64.b32encode(os.urandom(5)).decode()),
                    "embedding_model_dims": DIMENSIONS,
                },
            },
            "history_db_path": os.path.join(folder.name, "history.db"),
        }
    )


def ask(content):
    return [{"role": "user", "content": content}]


def plain(model, content):
    return {"text": memory_of(model).llm.generate_response(ask(content))}


def memory(model):
    keeper = memory_of(model)
    keeper.add("I like Oslo", user_id="someone")
    return {"text": keeper.search("Which city do I like?", filters={"user_id": "someone"})["results"][0]["memory"]}


IMAGE = [{"type": "text", "text": "Inspect"}, {"type": "image_url", "image_url": {"url": IMAGE_URL}}]
cases = {
    "plain": lambda model: plain(model, QUESTION),
    "errors": lambda model: memory_of(model).add(QUESTION, user_id="someone"),
    "retries": lambda model: plain(model, QUESTION),
    "memory": memory,
}
if PROVIDER == "openai":
    cases["images"] = lambda model: plain(model, IMAGE)
drive(cases)
