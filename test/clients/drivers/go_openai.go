package main

import (
	"context"
	"errors"
	"io"

	"github.com/sashabaranov/go-openai"
)

func main() {
	job := readJob()
	ctx := context.Background()
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
	question := func(model string) (Seen, error) { return plain(ctx, model) }

	drive(job, map[string]func(string) (Seen, error){
		"plain":  question,
		"errors": question,
		"timeout": func(model string) (Seen, error) {
			limited, cancel := job.withTimeout()
			defer cancel()
			return plain(limited, model)
		},
		"stream": func(model string) (seen Seen, err error) {
			stream, err := client.CreateChatCompletionStream(ctx, ask(model))
			if err != nil {
				return seen, err
			}
			defer stream.Close()
			for {
				chunk, err := stream.Recv()
				if errors.Is(err, io.EOF) {
					return seen, nil
				}
				if err != nil {
					return seen, err
				}
				if text := chunk.Choices[0].Delta.Content; text != "" {
					seen.Text += text
					seen.Pieces++
				}
			}
		},
	})
}
