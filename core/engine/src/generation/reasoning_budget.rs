//! [`ReasoningBudget`]: ends the reasoning of an answer after a number of tokens.

use std::collections::{HashMap, VecDeque};

/// Counts the tokens of reasoning, and says which tokens must follow the last one that is allowed.
#[derive(Debug, Default)]
pub(crate) struct ReasoningBudget {
    limit: usize,
    used: usize,
    /// The tokens of each closing tag.
    tags: HashMap<String, Vec<u32>>,
    /// What is left of the closing tag, once it must come.
    closing: VecDeque<u32>,
}

impl ReasoningBudget {
    /// At most `limit` tokens of reasoning, with the opening tag if the model writes it. `tags` are the tokens of each
    /// closing tag, and `open` is the one that the beginning of the answer waits for.
    pub(crate) fn new(limit: usize, tags: HashMap<String, Vec<u32>>, open: Option<&str>) -> Self {
        let mut budget = Self { limit, tags, ..Self::default() };
        budget.close(open);
        budget
    }

    /// The token that must come next.
    pub(crate) fn forced(&self) -> Option<u32> {
        self.closing.front().copied()
    }

    /// Takes a token of the answer. `open`: the tag that closes the reasoning that the answer is in then.
    pub(crate) fn take(&mut self, open: Option<&str>) {
        if self.closing.pop_front().is_none() && open.is_some() {
            self.used += 1;
            self.close(open);
        }
    }

    fn close(&mut self, open: Option<&str>) {
        if self.used >= self.limit
            && let Some(tokens) = open.and_then(|tag| self.tags.get(tag))
        {
            self.closing = tokens.iter().copied().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_tag_follows_the_last_token() {
        let tags = || HashMap::from([("</t>".to_owned(), vec![7, 8])]);
        let mut budget = ReasoningBudget::new(2, tags(), Some("</t>"));
        let mut forced = Vec::new();
        for open in [Some("</t>"), Some("</t>"), Some("</t>"), None, None] {
            forced.push(budget.forced());
            budget.take(open);
        }
        assert_eq!(forced, [None, None, Some(7), Some(8), None]);
        assert_eq!(ReasoningBudget::new(0, tags(), Some("</t>")).forced(), Some(7));
        let mut text = ReasoningBudget::new(0, tags(), None);
        text.take(None);
        assert_eq!(text.forced(), None);
    }
}
