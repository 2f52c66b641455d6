//! [`Bytes`]: a tokenizer with a token per byte and a few control tokens, and a chat format on it.

use menagerie_engine::{
    AnswerSyntax, CallSyntax, ChatCapable, ChatMessage, InfillTokens, ReasoningTags, RenderOptions,
    RenderedPrompt, TextError, TextStream, Tokenizing,
};

pub(crate) const VOCABULARY: usize = 262;
/// Ends an answer.
pub(crate) const END: u32 = 257;
/// Ends an answer too.
pub(crate) const END_OF_TURN: u32 = 258;
/// Control token `<think>`.
pub(crate) const THINK: u32 = 259;
/// Control token `</think>`.
pub(crate) const THOUGHT: u32 = 260;

pub(crate) struct Bytes;

/// Token ids of a text.
pub(crate) fn ids(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

#[derive(Default)]
struct ByteStream {
    held: Vec<u8>,
}

impl TextStream for ByteStream {
    fn push(&mut self, id: u32) -> Result<String, TextError> {
        let Ok(byte) = u8::try_from(id) else { return Ok(String::new()) };
        self.held.push(byte);
        match std::str::from_utf8(&self.held) {
            Ok(text) => {
                let text = text.to_owned();
                self.held.clear();
                Ok(text)
            }
            Err(_) => Ok(String::new()),
        }
    }

    fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned()
    }
}

impl Tokenizing for Bytes {
    fn vocabulary(&self) -> usize {
        VOCABULARY
    }

    fn encode_prompt(&self, text: &str) -> Result<Vec<u32>, TextError> {
        self.encode(text)
    }

    fn encode_prompt_within(&self, text: &str, most: usize) -> Result<(Vec<u32>, usize), TextError> {
        let mut all = ids(text);
        let cut = all.len().saturating_sub(most);
        all.truncate(most);
        Ok((all, cut))
    }

    fn encode_pair_within(
        &self,
        first: &str,
        second: &str,
        most: usize,
    ) -> Result<((Vec<u32>, usize), usize), TextError> {
        let (second, cut) = self.encode_prompt_within(second, most.saturating_sub(first.len()))?;
        Ok((([ids(first), second].concat(), first.len()), cut))
    }

    fn beginning(&self) -> Option<u32> {
        None
    }

    fn encode_pair(&self, first: &str, second: &str) -> Result<(Vec<u32>, usize), TextError> {
        Ok(([ids(first), ids(second)].concat(), ids(first).len()))
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        Ok(ids(text))
    }

    fn piece(&self, id: u32) -> String {
        u8::try_from(id).map(|byte| String::from_utf8_lossy(&[byte]).into_owned()).unwrap_or_default()
    }

    fn bytes(&self, id: u32) -> Vec<u8> {
        match (u8::try_from(id), self.control_text(id)) {
            (Ok(byte), _) => vec![byte],
            (Err(_), name) => name.unwrap_or_default().into_bytes(),
        }
    }

    fn is_control(&self, id: u32) -> bool {
        (256..VOCABULARY as u32).contains(&id)
    }

    fn control_text(&self, id: u32) -> Option<String> {
        match id {
            THINK => Some("<think>".to_owned()),
            THOUGHT => Some("</think>".to_owned()),
            _ => None,
        }
    }

    fn end_of_generation(&self) -> &[u32] {
        &[END, END_OF_TURN]
    }

    /// Bytes that no text of the tests has.
    fn infill(&self) -> Option<InfillTokens> {
        Some(InfillTokens::new(1, 2, 3).with_file(Some(4)))
    }

    fn stream(&self) -> Box<dyn TextStream + Send> {
        Box::new(ByteStream::default())
    }
}

/// Renders `S:..;U:..;A:..;` and then `A:`.
pub(crate) struct Format {
    pub tags: Vec<ReasoningTags>,
    pub calls: Option<CallSyntax>,
}

impl Default for Format {
    fn default() -> Self {
        Self { tags: vec![thinking()], calls: None }
    }
}

/// The tags that every model may use.
pub(crate) fn thinking() -> ReasoningTags {
    ReasoningTags { open: "<think>".to_owned(), close: "</think>".to_owned() }
}

impl ChatCapable for Format {
    fn render_prompt(
        &self,
        messages: &[ChatMessage],
        options: &RenderOptions,
    ) -> Result<RenderedPrompt, TextError> {
        let mut text = String::new();
        for message in messages {
            let initial = message.role.chars().next().unwrap_or('?').to_ascii_uppercase();
            text.push_str(&format!("{initial}:{};", message.content));
        }
        if options.continue_final_message {
            text.pop();
        } else if options.generation_prompt {
            text.push_str("A:");
        }
        let syntax = AnswerSyntax::of_reasoning(self.tags.clone()).with_calls(self.calls.clone());
        let syntax = syntax.after_prompt(&text);
        Ok(RenderedPrompt { tokens: ids(&text), syntax, text })
    }

    fn identity(&self) -> String {
        "initials".to_owned()
    }
}
