package main

import (
	"context"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

func main() {
	job := readJob()
	ctx := context.Background()
	client := anthropic.NewClient(option.WithBaseURL(job.URL), option.WithAPIKey(job.Key))
	samples := job.Samples

	ask := func(model string, blocks ...anthropic.ContentBlockParamUnion) anthropic.MessageNewParams {
		return anthropic.MessageNewParams{
			Model: anthropic.Model(model), MaxTokens: 500, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(blocks...)},
		}
	}
	var tools []anthropic.ToolUnionParam
	for _, tool := range samples.Tools {
		schema := anthropic.ToolInputSchemaParam{Properties: tool.Parameters["properties"]}
		tools = append(tools, anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{
			Name: tool.Name, Description: anthropic.String(tool.Description), InputSchema: schema,
		}})
	}
	textOf := func(message *anthropic.Message) (text string) {
		for _, block := range message.Content {
			text += block.Text
		}
		return text
	}

	plain := func(params anthropic.MessageNewParams) (*anthropic.Message, error) {
		return client.Messages.New(ctx, params)
	}
	streamed := func(params anthropic.MessageNewParams) (*anthropic.Message, int, error) {
		stream := client.Messages.NewStreaming(ctx, params)
		message := anthropic.Message{}
		pieces := 0
		for stream.Next() {
			event := stream.Current()
			if err := message.Accumulate(event); err != nil {
				return nil, 0, err
			}
			if event.Delta.Text != "" {
				pieces++
			}
		}
		return &message, pieces, stream.Err()
	}
	viaStream := func(params anthropic.MessageNewParams) (*anthropic.Message, error) {
		message, _, err := streamed(params)
		return message, err
	}
	text := func(params anthropic.MessageNewParams) (Seen, error) {
		message, err := plain(params)
		if err != nil {
			return Seen{}, err
		}
		return Seen{Text: textOf(message), Tokens: &Tokens{message.Usage.InputTokens, message.Usage.OutputTokens}}, nil
	}
	question := func(model string) (Seen, error) { return text(ask(model, anthropic.NewTextBlock(samples.Question))) }
	useTools := func(respond func(anthropic.MessageNewParams) (*anthropic.Message, error)) func(string) (Seen, error) {
		return func(model string) (Seen, error) {
			params := ask(model, anthropic.NewTextBlock(samples.City))
			params.Tools = tools
			first, err := respond(params)
			if err != nil {
				return Seen{}, err
			}
			seen := Seen{}
			var results []anthropic.ContentBlockParamUnion
			for _, block := range first.Content {
				if use := block; use.Type == "tool_use" {
					seen.Calls = append(seen.Calls, Call{use.Name, parse(string(use.Input))})
					results = append(results, anthropic.NewToolResultBlock(use.ID, toolResults[use.Name], false))
				}
			}
			params.Messages = append(params.Messages, first.ToParam(), anthropic.NewUserMessage(results...))
			last, err := respond(params)
			if err != nil {
				return Seen{}, err
			}
			seen.Text = textOf(last)
			return seen, nil
		}
	}

	drive(job, map[string]func(string) (Seen, error){
		"plain": question,
		"stream": func(model string) (Seen, error) {
			message, pieces, err := streamed(ask(model, anthropic.NewTextBlock(samples.Question)))
			if err != nil {
				return Seen{}, err
			}
			return Seen{Text: textOf(message), Pieces: pieces}, nil
		},
		"tools":          useTools(plain),
		"stream-tools":   useTools(viaStream),
		"parallel-tools": useTools(viaStream),
		"structured": func(model string) (Seen, error) {
			params := ask(model, anthropic.NewTextBlock(samples.City))
			params.Tools = tools
			params.ToolChoice = anthropic.ToolChoiceParamOfTool("get_weather")
			message, err := plain(params)
			if err != nil {
				return Seen{}, err
			}
			return Seen{Value: parse(string(message.Content[0].Input))}, nil
		},
		"images": func(model string) (Seen, error) {
			return text(ask(model, anthropic.NewTextBlock("Inspect"), anthropic.NewImageBlockBase64("image/png", samples.Image)))
		},
		"errors":  question,
		"retries": question,
		"timeout": func(model string) (Seen, error) {
			limited, cancel := job.withTimeout()
			defer cancel()
			_, err := client.Messages.New(limited, ask(model, anthropic.NewTextBlock(samples.Question)))
			return Seen{}, err
		},
		"reasoning": func(model string) (Seen, error) {
			params := ask(model, anthropic.NewTextBlock(samples.Question))
			params.MaxTokens = 2000
			params.Thinking = anthropic.ThinkingConfigParamOfEnabled(1024)
			message, err := viaStream(params)
			if err != nil {
				return Seen{}, err
			}
			return Seen{Text: textOf(message), Reasoning: message.Content[0].Thinking}, nil
		},
		"models": func(string) (Seen, error) {
			seen := Seen{}
			pages := client.Models.ListAutoPaging(ctx, anthropic.ModelListParams{})
			for pages.Next() {
				seen.IDs = append(seen.IDs, pages.Current().ID)
			}
			return seen, pages.Err()
		},
		"count-tokens": func(model string) (Seen, error) {
			params := ask(model, anthropic.NewTextBlock(samples.Question))
			counted, err := client.Messages.CountTokens(ctx, anthropic.MessageCountTokensParams{Model: params.Model, Messages: params.Messages})
			if err != nil {
				return Seen{}, err
			}
			return Seen{Count: counted.InputTokens}, nil
		},
	})
}
