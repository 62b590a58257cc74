import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.core.http.StreamResponse;
import com.openai.models.chat.completions.ChatCompletionChunk;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import java.util.ArrayList;
import java.util.List;

final class OpenaiJava {
    public static void main(String[] args) throws Exception {
        Driver.drive(OpenaiJava::plain, OpenaiJava::stream);
    }

    static String plain(String model, Driver.Limits limits) {
        return client(limits).chat().completions().create(ask(model)).choices().get(0).message().content().orElse("");
    }

    static List<String> stream(String model, Driver.Limits limits) {
        List<String> pieces = new ArrayList<>();
        try (StreamResponse<ChatCompletionChunk> chunks = client(limits).chat().completions().createStreaming(ask(model))) {
            chunks.stream().forEach(chunk ->
                chunk.choices().get(0).delta().content().filter(text -> !text.isEmpty()).ifPresent(pieces::add));
        }
        return pieces;
    }

    private static OpenAIClient client(Driver.Limits limits) {
        return OpenAIOkHttpClient.builder()
            .baseUrl(Driver.URL + "/v1")
            .apiKey(Driver.KEY)
            .timeout(limits.timeout())
            .maxRetries(limits.retries())
            .build();
    }

    private static ChatCompletionCreateParams ask(String model) {
        return ChatCompletionCreateParams.builder().model(model).addUserMessage(Driver.QUESTION).build();
    }
}
