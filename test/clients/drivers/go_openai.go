package main

import (
	"context"

	"github.com/sashabaranov/go-openai"
)

func main() {
	job := readJob()
	config := openai.DefaultConfig(job.Key)
	config.BaseURL = job.URL + "/v1"
	client := openai.NewClientWithConfig(config)

	ask := func(model string) openai.ChatCompletionRequest {
		question := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: job.Samples.Question}
		return openai.ChatCompletionRequest{Model: model, Messages: []openai.ChatCompletionMessage{question}}
	}
	plain := func(ctx context.Context, model string) (Seen, error) {
		completion, err := client.CreateChatCompletion(ctx, ask(model))
		if err != nil {
			return Seen{}, err
		}
		tokens := Tokens{int64(completion.Usage.PromptTokens), int64(completion.Usage.CompletionTokens)}
		return Seen{Text: completion.Choices[0].Message.Content, Tokens: &tokens}, nil
	}
	stream := func(ctx context.Context, model string) (Seen, error) {
		stream, err := client.CreateChatCompletionStream(ctx, ask(model))
		if err != nil {
			return Seen{}, err
		}
		defer stream.Close()
		return join(func() (string, error) {
			chunk, err := stream.Recv()
			if err != nil {
				return "", err
			}
			return chunk.Choices[0].Delta.Content, nil
		})
	}
	drive(job, job.callCases(plain, stream))
}
