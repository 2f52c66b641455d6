//! [`FinalMessage`]: the last message of a conversation, which the answer continues.

use menagerie_engine::TextError;
use menagerie_loaders::Segment;
use serde_json::Value;

/// Characters that mark the end of a message: private ones, which no text has by itself.
const MARKS: std::ops::RangeInclusive<char> = '\u{F0000}'..='\u{F00FF}';

/// The last message of a conversation, with a mark behind its text. The template writes the mark too, and the prompt is cut
/// there: what the template writes behind the text of a message is left out, whatever it is.
pub(crate) struct FinalMessage {
    mark: char,
    /// The text, without white space at its beginning, which templates may remove.
    text: String,
}

impl FinalMessage {
    /// Marks the end of the last message; `source` is the template. The text of a message without content is its reasoning.
    ///
    /// # Errors
    /// There is no message, or it cannot be continued.
    pub(crate) fn new(messages: &mut [Value], source: &str) -> Result<Self, TextError> {
        let all: String = messages.iter().map(Value::to_string).chain([source.to_owned()]).collect();
        let mark = MARKS.into_iter().find(|mark| !all.contains(*mark));
        let mark =
            mark.ok_or_else(|| refused("the messages have all private characters that could mark its end"))?;
        let last = messages.last_mut().ok_or_else(|| refused("there is none"))?;
        if last["role"] != "assistant" {
            return Err(refused(&format!("its role is {}, not \"assistant\"", last["role"])));
        }
        if last.get("tool_calls").is_some() {
            return Err(refused("it has calls of tools, which are complete"));
        }
        let has = |name: &str| last.get(name).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        let field = if !has("content") && has("reasoning_content") { "reasoning_content" } else { "content" };
        let text = last[field].as_str().unwrap_or_default().to_owned();
        last[field] = format!("{text}{mark}").into();
        Ok(Self { mark, text: text.trim_start().to_owned() })
    }

    /// The prompt up to the mark.
    ///
    /// # Errors
    /// The template does not write the text as it is, or writes it several times or not at all.
    pub(crate) fn cut(&self, segments: Vec<Segment>) -> Result<Vec<Segment>, TextError> {
        let count: usize = segments.iter().map(|segment| segment.text.matches(self.mark).count()).sum();
        let mut kept = Vec::with_capacity(segments.len());
        for segment in segments {
            if let Some((before, _)) = segment.text.split_once(self.mark) {
                kept.push(Segment { text: before.to_owned(), trusted: segment.trusted });
                break;
            }
            kept.push(segment);
        }
        let prompt: String = kept.iter().map(|segment| segment.text.as_str()).collect();
        if count == 1 && prompt.ends_with(&self.text) {
            return Ok(kept);
        }
        Err(refused(
            "the chat template does not write its text once and unchanged, so that it cannot be left open",
        ))
    }
}

fn refused(reason: &str) -> TextError {
    TextError::new(format!("continue_final_message: the last message cannot be continued: {reason}"))
}
