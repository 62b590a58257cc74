mod driver;

use async_openai::{
    Client,
    config::OpenAIConfig,
    error::OpenAIError,
    types::chat::{ChatCompletionRequestUserMessage, CreateChatCompletionRequest},
};
use futures::StreamExt;

struct AsyncOpenai {
    client: Client<OpenAIConfig>,
    question: String,
}

impl AsyncOpenai {
    fn ask(&self, model: &str) -> CreateChatCompletionRequest {
        let question = ChatCompletionRequestUserMessage::from(self.question.clone());
        CreateChatCompletionRequest { model: model.into(), messages: vec![question.into()], ..Default::default() }
    }
}

impl driver::Client for AsyncOpenai {
    type Error = OpenAIError;
    const RETRIES: bool = true;

    async fn plain(&self, model: &str) -> Result<String, OpenAIError> {
        let completion = self.client.chat().create(self.ask(model)).await?;
        Ok(completion.choices[0].message.content.clone().unwrap_or_default())
    }

    async fn stream(&self, model: &str) -> Result<Vec<String>, OpenAIError> {
        let mut pieces = vec![];
        let mut stream = self.client.chat().create_stream(self.ask(model)).await?;
        while let Some(chunk) = stream.next().await {
            pieces.extend(chunk?.choices[0].delta.content.clone().filter(|text| !text.is_empty()));
        }
        Ok(pieces)
    }
}

#[tokio::main]
async fn main() {
    let job = driver::read_job();
    let config = OpenAIConfig::new().with_api_base(format!("{}/v1", job.url)).with_api_key(&job.key);
    let client = AsyncOpenai { client: Client::with_config(config), question: job.question.clone() };
    driver::drive(&job, client).await;
}
