package main

import (
	"context"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/anthropic"
	"github.com/tmc/langchaingo/llms/openai"
)

// The flavors are `chat` and `messages`, which are packages of langchaingo.
func main() {
	job := readJob()

	modelOf := func(model string) (llms.Model, error) {
		if job.Flavor == "messages" {
			return anthropic.New(anthropic.WithModel(model), anthropic.WithToken(job.Key), anthropic.WithBaseURL(job.URL+"/v1"))
		}
		return openai.New(openai.WithModel(model), openai.WithToken(job.Key), openai.WithBaseURL(job.URL+"/v1"))
	}
	ask := func(ctx context.Context, model string, options ...llms.CallOption) (Seen, error) {
		llm, err := modelOf(model)
		if err != nil {
			return Seen{}, err
		}
		messages := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, job.Samples.Question)}
		response, err := llm.GenerateContent(ctx, messages, append(options, llms.WithMaxTokens(500))...)
		if err != nil {
			return Seen{}, err
		}
		return Seen{Text: response.Choices[0].Content}, nil
	}
	plain := func(ctx context.Context, model string) (Seen, error) { return ask(ctx, model) }
	stream := func(ctx context.Context, model string) (Seen, error) {
		pieces := 0
		seen, err := ask(ctx, model, llms.WithStreamingFunc(func(_ context.Context, chunk []byte) error {
			if len(chunk) > 0 {
				pieces++
			}
			return nil
		}))
		seen.Pieces = pieces
		return seen, err
	}
	drive(job, job.callCases(plain, stream))
}
