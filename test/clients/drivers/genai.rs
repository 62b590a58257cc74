//! The flavors `chat` and `messages` are adapters of genai.

mod driver;

use futures::StreamExt;
use genai::{
    Client, Error, ModelIden, ModelSpec, ServiceTarget,
    adapter::AdapterKind,
    chat::{ChatMessage, ChatRequest, ChatStreamEvent},
    resolver::{AuthData, Endpoint},
};

struct Genai<'a> {
    client: Client,
    job: &'a driver::Job,
}

impl Genai<'_> {
    fn model(&self, name: &str) -> ModelSpec {
        let adapter = if self.job.is_messages { AdapterKind::Anthropic } else { AdapterKind::OpenAI };
        ModelSpec::Target(ServiceTarget {
            endpoint: Endpoint::from_owned(format!("{}/v1/", self.job.url)),
            auth: AuthData::from_single(self.job.key.clone()),
            model: ModelIden::new(adapter, name.to_string()),
        })
    }

    fn ask(&self) -> ChatRequest {
        ChatRequest::new(vec![ChatMessage::user(self.job.question.clone())])
    }
}

impl driver::Client for Genai<'_> {
    type Error = Error;
    const RETRIES: bool = false;

    async fn plain(&self, model: &str) -> Result<String, Error> {
        let response = self.client.exec_chat(self.model(model), self.ask(), None).await?;
        Ok(response.into_first_text().unwrap_or_default())
    }

    async fn stream(&self, model: &str) -> Result<Vec<String>, Error> {
        let mut pieces = vec![];
        let mut stream = self.client.exec_chat_stream(self.model(model), self.ask(), None).await?.stream;
        while let Some(event) = stream.next().await {
            if let ChatStreamEvent::Chunk(chunk) = event? {
                pieces.push(chunk.content);
            }
        }
        Ok(pieces)
    }
}

#[tokio::main]
async fn main() {
    let job = driver::read_job();
    driver::drive(&job, Genai { client: Client::new().unwrap(), job: &job }).await;
}
