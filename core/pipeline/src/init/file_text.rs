//! Tokenizer and chat template of a file as capabilities: [`FileTokenizer`], [`TemplateFormat`].

use crate::capability::{ChatCapable, TextStream, Tokenizing};
use crate::error::TextError;
use crate::generate::{ChatMessage, ReasoningTags, RenderOptions, RenderedPrompt};
use menagerie_loaders::{
    ChatTemplate, Segment, Special, TextDecoder, TextDecoderOptions, TokenKind, Tokenizer,
};

/// The tokenizer of a file.
#[derive(Clone, Debug)]
pub(crate) struct FileTokenizer {
    pub(crate) tokenizer: Tokenizer,
    /// How a reranker's two texts stand in one prompt, `{query}` and `{document}` in their places (the file's template
    /// `rerank`); absent = one after the other.
    pub(crate) pair: Option<String>,
}

impl FileTokenizer {
    /// The template with the texts in it; only its own text can name special tokens.
    fn in_template(&self, template: &str, first: &str, second: &str) -> Result<Vec<u32>, TextError> {
        let mut segments = Vec::new();
        for (at, part) in template.split("{query}").enumerate() {
            if at > 0 {
                segments.push(Segment::untrusted(first));
            }
            for (at, part) in part.split("{document}").enumerate() {
                if at > 0 {
                    segments.push(Segment::untrusted(second));
                }
                segments.push(Segment::trusted(part));
            }
        }
        self.tokenizer.encode_segments(&segments).map_err(TextError::new)
    }
}

impl TextStream for TextDecoder {
    fn push(&mut self, id: u32) -> Result<String, TextError> {
        TextDecoder::push(self, id).map_err(TextError::new)
    }

    fn finish(&mut self) -> String {
        self.flush()
    }
}

impl Tokenizing for FileTokenizer {
    fn vocabulary(&self) -> usize {
        self.tokenizer.vocab_size()
    }

    fn encode_prompt(&self, text: &str) -> Result<Vec<u32>, TextError> {
        Ok(self.tokenizer.frame(self.encode(text)?))
    }

    fn beginning(&self) -> Option<u32> {
        self.tokenizer.bos().filter(|_| self.tokenizer.adds_bos())
    }

    fn encode_pair(&self, first: &str, second: &str) -> Result<(Vec<u32>, usize), TextError> {
        if let Some(template) = &self.pair {
            let ids = self.in_template(template, first, second)?;
            let end = ids.len();
            return Ok((ids, end));
        }
        let (first, second) = (self.encode(first)?, self.encode(second)?);
        Ok(self.tokenizer.frame_pair(first, &second))
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        self.tokenizer.encode(text, Special::Plain).map_err(TextError::new)
    }

    fn piece(&self, id: u32) -> String {
        self.tokenizer.token_piece(id).unwrap_or_default()
    }

    fn control_text(&self, id: u32) -> Option<String> {
        let control = matches!(self.tokenizer.token_kind(id).ok()?, TokenKind::Control | TokenKind::Unknown);
        control.then(|| self.tokenizer.token_text(id).ok().map(str::to_owned))?
    }

    fn end_of_generation(&self) -> &[u32] {
        self.tokenizer.end_of_generation()
    }

    fn stream(&self) -> Box<dyn TextStream + Send + '_> {
        Box::new(TextDecoder::new(&self.tokenizer, TextDecoderOptions::default()))
    }
}

/// A chat template with the tokenizer it is for.
#[derive(Debug)]
pub(crate) struct TemplateFormat {
    template: ChatTemplate,
    tokenizer: Tokenizer,
    tags: Vec<ReasoningTags>,
}

impl TemplateFormat {
    /// A template whose prompts `tokenizer` encodes.
    pub(crate) fn new(template: ChatTemplate, tokenizer: Tokenizer) -> Self {
        let tags = ReasoningTags::of_template(tokenizer.tables(), template.source());
        Self { template, tokenizer, tags }
    }

    /// The tokens of a rendered prompt: the beginning token once, no end token (the answer goes on).
    fn frame(&self, tokens: Vec<u32>) -> Vec<u32> {
        let length = tokens.len();
        let mut framed = self.tokenizer.frame(tokens);
        if self.tokenizer.adds_eos()
            && framed.len() > length
            && framed.last().copied() == self.tokenizer.eos()
        {
            framed.pop();
        }
        framed
    }
}

impl ChatCapable for TemplateFormat {
    fn render_prompt(
        &self,
        messages: &[ChatMessage],
        options: &RenderOptions,
    ) -> Result<RenderedPrompt, TextError> {
        let messages: Result<Vec<serde_json::Value>, _> = messages.iter().map(serde_json::to_value).collect();
        let rendering = menagerie_loaders::RenderOptions::default()
            .with_tools(options.tools.clone())
            .with_add_generation_prompt(options.generation_prompt)
            .with_extra(options.arguments.clone());
        let messages = messages.map_err(TextError::new)?;
        let guarded = self.tokenizer.guarded_texts();
        let segments =
            self.template.render_segments(&messages, &rendering, &guarded).map_err(TextError::new)?;
        let tokens = self.tokenizer.encode_segments(&segments).map_err(TextError::new)?;
        let text: String = segments.iter().map(|segment| segment.text.as_str()).collect();
        let open = segments.last().filter(|last| last.trusted && options.generation_prompt);
        let reasoning_open = open.and_then(|last| ReasoningTags::left_open(&self.tags, &last.text)).cloned();
        Ok(RenderedPrompt {
            tokens: self.frame(tokens),
            text,
            reasoning_tags: self.tags.clone(),
            reasoning_open,
        })
    }
}
