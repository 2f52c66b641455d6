//! A template as the instructions that minijinja runs; each instruction with a result larger than its input uses the
//! budget.
//!
//! minijinja counts instructions (its "fuel"), but one instruction can double a text. Operators have no hook, so they
//! become filters, which have one.

use std::collections::BTreeMap;

use minijinja::machinery::{self, CodeGenerator, Instruction, Instructions, Token, ast};
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value};

use super::filters::ITERATED;
use super::operations::{ADD, CHECKED, COMPARISONS, CONCATENATE, CONTAINS, MULTIPLY, SLICE};

/// Maximum number of operators, brackets and operator words in one tag, and of `elif`s in a template. Each is a level
/// of the tree that minijinja builds and walks recursively, and minijinja limits only brackets and blocks; published
/// templates have at most 70 and 20.
const MOST_LEVELS: usize = 500;
const MOST_BRANCHES: usize = 200;

/// No slot of minijinja's cache of filters.
const NO_SLOT: u8 = u8::MAX;

/// A compiled template.
pub(super) struct Program<'s> {
    root: Instructions<'s>,
    blocks: BTreeMap<&'s str, Instructions<'s>>,
    /// Whether the template mentions `messages`.
    mentions_messages: bool,
}

impl<'s> Program<'s> {
    /// Compiles a template.
    ///
    /// # Errors
    /// A syntax that minijinja does not support.
    pub(super) fn compile(name: &'s str, source: &'s str, syntax: SyntaxConfig) -> Result<Self, Error> {
        check_depth(source, syntax.clone())?;
        let parsed: ast::Stmt<'s> = machinery::parse(source, name, syntax)?;
        let mut generator = CodeGenerator::new(name, source);
        generator.compile_stmt(&parsed);
        let (root, blocks) = generator.finish();
        let mentions_messages = std::iter::once(&root)
            .chain(blocks.values())
            .any(|steps| all(steps).any(|step| matches!(step, Instruction::Lookup("messages"))));
        let root = within_budget(&root)?;
        let blocks = blocks
            .into_iter()
            .map(|(name, steps)| Ok((name, within_budget(&steps)?)))
            .collect::<Result<_, Error>>()?;
        Ok(Self { root, blocks, mentions_messages })
    }

    /// Whether the template mentions `messages`.
    pub(super) fn mentions_messages(&self) -> bool {
        self.mentions_messages
    }

    /// Renders; `environment` has the operators.
    ///
    /// # Errors
    /// The error of the template.
    pub(super) fn run(&self, environment: &Environment<'s>, context: Value) -> Result<String, Error> {
        let mut text = String::new();
        let mut out = machinery::make_string_output(&mut text);
        machinery::eval(environment, &self.root, context, &self.blocks, &mut out, AutoEscape::None)?;
        Ok(text)
    }
}

/// Refuses templates that would overflow the stack.
fn check_depth(source: &str, syntax: SyntaxConfig) -> Result<(), Error> {
    let (mut levels, mut branches) = (0, 0);
    for token in machinery::tokenize(source, false, syntax) {
        // The parser reports what cannot be split into tags.
        let Ok((token, span)) = token else { break };
        match token {
            Token::VariableStart | Token::BlockStart => levels = 0,
            Token::Ident("elif") => branches += 1,
            Token::Ident(word) if !matches!(word, "not" | "and" | "or" | "is" | "in" | "if" | "else") => {}
            Token::TemplateData(_) | Token::Str(_) | Token::String(_) | Token::Comma | Token::Colon => {}
            _ => levels += 1,
        }
        if levels > MOST_LEVELS || branches > MOST_BRANCHES {
            let line = span.start_line;
            let message = format!(
                "line {line}: more than {MOST_LEVELS} operators in one tag, or {MOST_BRANCHES} `elif`s in the template"
            );
            return Err(Error::new(ErrorKind::SyntaxError, message));
        }
    }
    Ok(())
}

/// The instructions in order.
fn all<'i, 's>(steps: &'i Instructions<'s>) -> impl Iterator<Item = &'i Instruction<'s>> {
    (0..).map_while(|at| steps.get(at))
}

/// The instructions with operators as filters, checks after lists and maps, and raw text as values.
fn within_budget<'s>(steps: &Instructions<'s>) -> Result<Instructions<'s>, Error> {
    let mut bounded = Instructions::new(steps.name(), steps.source());
    // The new place of each instruction, for jumps.
    let mut places = Vec::new();
    for (at, step) in (0u32..).zip(all(steps)) {
        let line = steps.get_line(at).and_then(|line| u16::try_from(line).ok());
        let mut add = |step| match line {
            Some(line) => bounded.add_with_line(step, line),
            None => bounded.add(step),
        };
        let mut first = None;
        for step in replacement(step)? {
            let place = add(step);
            first.get_or_insert(place);
        }
        places.extend(first);
    }
    let end = u32::try_from(all(&bounded).count()).unwrap_or(u32::MAX);
    let mut at = 0;
    while let Some(step) = bounded.get_mut(at) {
        let target = match step {
            Instruction::Iterate(target)
            | Instruction::Jump(target)
            | Instruction::JumpIfFalse(target)
            | Instruction::JumpIfFalseOrPop(target)
            | Instruction::JumpIfTrueOrPop(target)
            | Instruction::BuildMacro(_, target, _) => Some(target),
            _ => None,
        };
        if let Some(target) = target {
            *target = places.get(*target as usize).copied().unwrap_or(end);
        }
        at += 1;
    }
    Ok(bounded)
}

/// The replacement of an instruction.
fn replacement<'s>(step: &Instruction<'s>) -> Result<Vec<Instruction<'s>>, Error> {
    let filter = |name, count| Instruction::ApplyFilter(name, Some(count), NO_SLOT);
    let compare = |written: &str| {
        let found = COMPARISONS.iter().find(|(_, one)| *one == written);
        filter(found.map_or(CONTAINS, |(name, _)| *name), 2)
    };
    let unsupported =
        |what: &str| Err(Error::new(ErrorKind::SyntaxError, format!("{what} is not supported")));
    Ok(match step {
        Instruction::Add => vec![filter(ADD, 2)],
        Instruction::Mul => vec![filter(MULTIPLY, 2)],
        Instruction::StringConcat => vec![filter(CONCATENATE, 2)],
        Instruction::Slice => vec![filter(SLICE, 4)],
        Instruction::In => vec![filter(CONTAINS, 2)],
        Instruction::Eq => vec![compare("==")],
        Instruction::Ne => vec![compare("!=")],
        Instruction::Lt => vec![compare("<")],
        Instruction::Lte => vec![compare("<=")],
        Instruction::Gt => vec![compare(">")],
        Instruction::Gte => vec![compare(">=")],
        Instruction::CompareAndPreserve(_) => return unsupported("a chain of comparisons (`a < b < c`)"),
        Instruction::UnpackLists(count) if *count > 1 => {
            return unsupported("more than one `*list` in a call");
        }
        Instruction::UnpackLists(_) => vec![filter(CHECKED, 1), step.clone()],
        Instruction::BuildList(_) | Instruction::BuildMap(_) | Instruction::BuildTuple(_) => {
            vec![step.clone(), filter(CHECKED, 1)]
        }
        // The value is below the namespace that receives it.
        Instruction::SetAttr(_) => {
            vec![Instruction::Swap, filter(CHECKED, 1), Instruction::Swap, step.clone()]
        }
        Instruction::PushLoop(_) => vec![filter(ITERATED, 1), step.clone()],
        Instruction::EmitRaw(raw) => vec![Instruction::LoadConst(Value::from(*raw)), Instruction::Emit],
        other => vec![other.clone()],
    })
}
